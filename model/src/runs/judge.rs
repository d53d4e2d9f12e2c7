//! Judgement of a run: found against expected, counted against recorded.

use std::fmt::Display;

use serde::Serialize;

use super::manifest::{Record, Recorded};
use super::outcome::{Exit, Kind, Outcome, Verdict};
use super::run::{Expect, Run};
use super::runner::ASSERTION;
use crate::explore::Unknown;
use crate::report::grouped;

/// Why a run fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The exit code it asks for.
    pub exit: Exit,
    /// What is wrong and what to do.
    pub text: String,
}

impl Failure {
    /// A failure.
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into() }
    }
}

/// What is said of a run that finds what is recorded of it under another specification.
const OTHER_SPECIFICATION: &str = "counts unmoved; the specification is another than the recorded one: if that is \
    meant, run `lockstep-check record` and review the change";

/// Judges what `run` found.
///
/// # Errors
/// The [`Failure`], if it is not what the run must find.
pub fn judge_verdict(run: &Run, outcome: &Outcome) -> Result<(), Failure> {
    match (&outcome.verdict, run.expect) {
        (Verdict::Holds, Expect::Holds | Expect::Moves(_)) => Ok(()),
        (Verdict::Fault { kind, property }, expect) => judge_fault(*kind, property, expect),
        (Verdict::Holds | Verdict::Vacuous { .. }, Expect::Loses(situation)) => {
            judge_loss(outcome, situation)
        }
        (Verdict::Holds | Verdict::Vacuous { .. }, Expect::Violates(expected)) => {
            let text =
                format!("holds where it must violate `{expected}`: the property does not notice the fault");
            Err(Failure::new(Exit::NotFound, text))
        }
        (Verdict::Vacuous { missing }, Expect::Holds | Expect::Moves(_)) => {
            Err(Failure::new(Exit::Vacuous, format!("proves nothing: never reached: {}", missing.join(", "))))
        }
        (
            Verdict::Unknown(unknown),
            Expect::Holds | Expect::Violates(_) | Expect::Loses(_) | Expect::Moves(_),
        ) => {
            let text = format!("no verdict after {}: {}", how_far(outcome), give_up(unknown));
            Err(Failure::new(Exit::Budget, text))
        }
    }
}

/// Refuses to look for a property that the run's model does not have.
///
/// # Errors
/// The [`Failure`], with the properties that there are.
pub fn judge_expectation(run: &Run) -> Result<(), Failure> {
    let known = run.model.properties();
    match run.expect {
        Expect::Violates(expected) if expected != ASSERTION && !known.contains(&expected) => {
            let known = known.join(", ");
            let text = format!(
                "must violate `{expected}`, and its model has no such property; it has: {known}, {ASSERTION}"
            );
            Err(Failure::new(Exit::Usage, text))
        }
        Expect::Holds | Expect::Loses(_) | Expect::Moves(_) | Expect::Violates(_) => Ok(()),
    }
}

/// Judges a fault.
///
/// # Errors
/// The [`Failure`], if it is not the one that must be found.
pub fn judge_fault(kind: Kind, property: &str, expect: Expect) -> Result<(), Failure> {
    match expect {
        Expect::Holds | Expect::Loses(_) | Expect::Moves(_) => {
            Err(Failure::new(kind.into(), format!("violates `{property}` and must hold")))
        }
        Expect::Violates(expected) if property == expected => Ok(()),
        Expect::Violates(expected) => {
            let text = format!(
                "violates `{property}` where it must violate `{expected}`, which was not found: the fault put in is \
                 not the one that is noticed"
            );
            Err(Failure::new(Exit::NotFound, text))
        }
    }
}

/// A situation is lost if no witness of it was found, or no step covered it.
fn judge_loss(outcome: &Outcome, situation: &str) -> Result<(), Failure> {
    let missing = match &outcome.verdict {
        Verdict::Vacuous { missing } => &missing[..],
        Verdict::Fault { .. } | Verdict::Holds | Verdict::Unknown(_) => &[],
    };
    if missing.iter().chain(&outcome.uncovered).any(|lost| lost == situation) {
        return Ok(());
    }
    let text = format!("reaches `{situation}`, or does not know it: the fault put in changes nothing there");
    Err(Failure::new(Exit::NotFound, text))
}

fn how_far(outcome: &Outcome) -> String {
    format!(
        "{} states, depth {}, {} of them not expanded",
        grouped(outcome.counts.unique),
        outcome.counts.depth,
        grouped(outcome.scope.frontier)
    )
}

/// Why an exploration was given up, and what to do.
#[must_use]
pub fn give_up(unknown: &Unknown) -> String {
    match unknown {
        Unknown::Boundary { cut } => {
            format!("the model's boundary cuts {} steps off; bound its actions instead", grouped(*cut))
        }
        Unknown::Ids => "more than 2³¹ states; make the model smaller".to_owned(),
        Unknown::Memory => {
            "the budget of memory is spent; raise it, find a larger machine, or make the model smaller"
                .to_owned()
        }
        Unknown::States => "the budget of states is spent; raise it or leave it out".to_owned(),
        Unknown::Stopped => {
            "it was asked to stop; what `--checkpoint FILE` keeps, `--resume FILE` goes on with".to_owned()
        }
        Unknown::Time => "the budget of time is spent; raise it or leave it out".to_owned(),
    }
}

/// Compares what `run` found, which was as expected, with what is recorded of it.
///
/// # Errors
/// The [`Failure`], if it is not recorded, its counts moved, or they are of another specification.
pub fn judge_counts(run: &Run, outcome: &Outcome, recorded: Recorded<'_>) -> Result<(), Failure> {
    let old = recorded.manifest.find(run.name);
    let Some(old) = old.filter(|record| record.is_for(run.expect)) else {
        let text = "is not recorded in runs.toml with this expectation; run `lockstep-check record`";
        return Err(Failure::new(Exit::Moved, text));
    };
    let new = Record::of(run, outcome, &old.spec);
    let moves = [
        moved("unique states", old.unique, new.unique),
        moved("transitions", old.transitions, new.transitions),
        moved("depth", u64::from(old.depth), u64::from(new.depth)),
        moved("counterexample", u64::from(old.path.unwrap_or(0)), u64::from(new.path.unwrap_or(0))),
    ];
    let moves: Vec<String> = moves.into_iter().flatten().collect();
    if moves.is_empty() && old.spec == recorded.spec {
        return Ok(());
    }
    if moves.is_empty() {
        return Err(Failure::new(Exit::Moved, OTHER_SPECIFICATION));
    }
    let text = format!(
        "moved: {}; if that is meant, run `lockstep-check record` and review the change",
        moves.join(", ")
    );
    Err(Failure::new(Exit::Moved, text))
}

/// What moved, from what to what, and by how many per cent.
fn moved(what: impl Display, old: u64, new: u64) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "per cent, to one digit")]
    let percent = (new as f64 - old as f64) * 100.0 / old.max(1) as f64;
    (old != new).then(|| format!("{what} {} → {} ({percent:+.1} %)", grouped(old), grouped(new)))
}
