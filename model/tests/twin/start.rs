//! The start of a group against its twin, `Start.tla`: as many states, and as many steps between them.
//!
//! States are compared by number alone: what Rust's ranks hold between two collectives is theirs, and the twin holds no collectives at all.

use crate::tlc::{check, count, skipped};
use lockstep_model::protocol::Checked;
use lockstep_model::start::Start;
use lockstep_spec::start::Shipped;
use stateright::Model;
use std::collections::HashSet;

/// Configurations that hold, with their ranks; the last is for a longer test.
const EQUAL: [(&str, u32); 3] = [("start-1", 1), ("start-2", 2), ("start-3", 3)];

/// Broken variants, with what TLC must say of each.
const REFUSED: [(&str, &str); 6] = [
    ("start-fails-takes-proposed-pages", "Error: Invariant StartSound is violated."),
    ("start-fails-connects-unoffered", "Error: Invariant NoFault is violated."),
    ("start-fails-keeps-unjoined", "Error: Invariant StartSound is violated."),
    ("start-fails-leaves-joined", "Error: Invariant StartSound is violated."),
    ("start-fails-replays-uncaptured", "Error: Invariant StartSound is violated."),
    ("start-fails-connects-alone", "Error: Invariant NoStuck is violated."),
];

/// Names of the configurations that are run here.
pub(crate) fn configurations() -> impl Iterator<Item = &'static str> {
    EQUAL.iter().map(|(name, _)| *name).chain(REFUSED.iter().map(|(name, _)| *name))
}

/// How many states Rust reaches, and in how many ways they change.
fn size(ranks: u32) -> (usize, usize) {
    let model = Checked::new(Start::<Shipped>::new(ranks));
    let mut open = model.init_states();
    let mut seen: HashSet<_> = open.iter().cloned().collect();
    let mut steps = 0;
    while let Some(state) = open.pop() {
        for (_, next) in model.next_steps(&state) {
            steps += 1;
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    (seen.len(), steps)
}

/// TLC counts the first state among those it generates.
fn compare((name, ranks): (&str, u32)) {
    if !skipped() {
        let (states, steps) = size(ranks);
        assert_eq!(count("Start", name), (states, steps + 1), "{name}");
    }
}

#[test]
fn twin_equals_start_one_and_two_ranks() {
    EQUAL.into_iter().take(2).for_each(compare);
}

#[test]
#[ignore = "half a minute of CPU; the sizes of the run start-3"]
fn twin_equals_start_three_ranks() {
    EQUAL.into_iter().skip(2).for_each(compare);
}

#[test]
fn twin_refuses_broken_starts() {
    for (name, says) in REFUSED {
        if !skipped() {
            assert_eq!(check("Start", name), says, "{name}");
        }
    }
}
