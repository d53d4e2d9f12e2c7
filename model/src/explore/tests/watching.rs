//! Looking on, levels, and random walks.

use std::ops::ControlFlow;
use std::sync::Mutex;

use super::models::{Counters, Jugs, Table, WHEELS, Wheels, table};
use crate::explore::{End, Observer, Pulse, Settings, Unknown, explore, wander};

/// Notes what it sees, and ends the search beyond so many states.
#[derive(Debug)]
struct Onlooker {
    most: u64,
    seen: Mutex<Vec<(u64, u64)>>,
}

impl Observer for Onlooker {
    fn observe(&self, pulse: &Pulse<'_>) -> ControlFlow<Unknown> {
        assert!(
            pulse.frontier <= pulse.counts.unique && pulse.levels.iter().sum::<u64>() <= pulse.counts.unique
        );
        self.seen.lock().unwrap().push((pulse.counts.unique, pulse.frontier));
        if pulse.counts.unique > self.most {
            ControlFlow::Break(Unknown::Memory)
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[test]
fn watching_ends_a_search_without_verdict() {
    let model = Wheels { teeth: 8, forbidden: [u8::MAX; WHEELS] };
    let onlooker = Onlooker { most: 5_000, seen: Mutex::default() };
    let settings = Settings { observer: Some(&onlooker), ..Settings::default() };
    let exploration = explore(&model, &settings).unwrap();
    assert_eq!(exploration.end, End::Unknown(Unknown::Memory));
    assert!(exploration.counts.unique > 5_000 && exploration.frontier > 0);
    let seen = onlooker.seen.into_inner().unwrap();
    assert!(seen.is_sorted() && seen.len() > 3, "{seen:?}");
    assert_eq!(seen.last(), Some(&(exploration.counts.unique, exploration.frontier)));
}

#[test]
fn watching_counts_every_state_in_one_level() {
    let exploration = explore(&Counters { most: 9, properties: Vec::new }, &Settings::default()).unwrap();
    assert_eq!(exploration.levels, (1..=10).chain((1..10).rev()).collect::<Vec<u64>>());
    assert_eq!((exploration.frontier, exploration.counts.unique), (0, 100));
}

/// Numbers that are even enough for a walk.
fn chance() -> impl FnMut(usize) -> usize {
    let mut state = 7u32;
    move |ways| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % ways
    }
}

#[test]
fn watching_walks_find_faults_by_ways_without_loops() {
    let (wandered, fault) = wander(&Jugs, 1_000_000, &mut chance()).unwrap();
    let (end, trail) = fault.unwrap();
    assert!(matches!(end, End::Violated { property: "not four", .. }));
    let walk = trail.walk(&Jugs).unwrap();
    assert_eq!(walk.last().unwrap().1[1], 4);
    let mut passed: Vec<_> = walk.iter().map(|(_, state)| *state).collect();
    passed.sort_unstable();
    passed.dedup();
    assert_eq!(passed.len(), walk.len(), "no state twice");
    assert!(walk.len() >= 7 && wandered.steps + 1 >= walk.len() as u64);
}

#[test]
fn watching_walks_end_where_the_model_does() {
    let counters = Counters { most: 5, properties: Vec::new };
    let (wandered, fault) = wander(&counters, 1_000, &mut chance()).unwrap();
    assert!(fault.is_none());
    assert_eq!((wandered.steps, wandered.deepest, wandered.states.len()), (60, 10, 36), "each step once");
    let short = wander(&counters, 7, &mut chance()).unwrap();
    assert_eq!((short.0.steps, short.1), (7, None));
    let stuck = wander(&table(&[(0, 1), (0, 2), (1, 0)]), 1_000, &mut chance()).unwrap();
    assert!(matches!(stuck.1, Some((End::Stuck { .. }, _))));
    let panics = wander(&table(&[(0, 255)]), 1_000, &mut chance()).unwrap();
    assert!(matches!(panics.1, Some((End::Asserted { action: Some(0), .. }, _))));
    let nothing = wander(&Counters { most: 0, properties: Vec::new }, 1_000, &mut chance()).unwrap();
    assert_eq!((nothing.0.steps, nothing.1), (0, None));
}

#[test]
fn watching_walks_leave_loops_behind() {
    let looping = Table {
        properties: || vec![stateright::Property::always("far", |_, node| *node != 9)],
        ..table(LOOPS)
    };
    for skipped in 0..20 {
        let mut chance = chance();
        let _skipped = (0..skipped).map(|_| chance(2)).sum::<usize>();
        let (wandered, fault) = wander(&looping, LOOPS.len() as u64, &mut chance).unwrap();
        assert_eq!(fault.map(|(_, trail)| trail.actions.len()), Some(9), "{wandered:?}");
    }
}

/// A way of nine steps, with a step back to the start at each.
const LOOPS: &[(u8, u8)] = &[
    (0, 0),
    (0, 1),
    (1, 0),
    (1, 2),
    (2, 0),
    (2, 3),
    (3, 0),
    (3, 4),
    (4, 0),
    (4, 5),
    (5, 0),
    (5, 6),
    (6, 0),
    (6, 7),
    (7, 0),
    (7, 8),
    (8, 0),
    (8, 9),
];
