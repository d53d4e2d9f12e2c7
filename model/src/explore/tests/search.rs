//! Counts, order of discovery, independence of threads, agreement with Stateright.

use stateright::{Checker, Model, Property};

use super::models::{Counters, Jugs, Pour, WHEELS, Wheels, table};
use crate::explore::{Counts, Exploration, Settings, Trail, agree_with_stateright, explore};

const THREADS: [usize; 3] = [1, 2, 4];

fn with_threads(threads: usize) -> Settings<'static> {
    Settings { threads, ..Settings::default() }
}

fn trail_of(exploration: &Exploration) -> Trail {
    exploration.trail_to_fault().unwrap()
}

fn below_three() -> Vec<Property<Counters>> {
    vec![
        Property::always("below three", |_, state: &[u8; 2]| state[0] < 3),
        Property::sometimes("never met", |_, _| false),
    ]
}

#[test]
fn search_measures_four_units_in_six_pourings() {
    let exploration = explore(&Jugs, &Settings::default()).unwrap();
    let walk = trail_of(&exploration).walk(&Jugs).unwrap();
    let poured: Vec<Pour> = walk.iter().filter_map(|(action, _)| *action).collect();
    use Pour::{Empty, Fill, Over};
    assert_eq!(poured, [Fill(1), Over(1), Empty(0), Over(1), Fill(1), Over(1)]);
    assert_eq!(walk.last().unwrap().1, [3, 4]);
    assert_eq!(exploration.counts.depth, 6);
}

#[test]
fn search_reports_a_shortest_path_where_stateright_does_not() {
    let model = Counters { most: 30, properties: below_three };
    let exploration = explore(&model, &Settings::default()).unwrap();
    assert_eq!(trail_of(&exploration).actions, [0, 0, 0]);
    let theirs = model.checker().spawn_bfs().join().discovery("below three").unwrap();
    assert!(theirs.into_actions().len() > 3);
}

#[test]
fn search_is_the_same_on_any_number_of_threads() {
    let holds = Wheels { teeth: 8, forbidden: [u8::MAX; WHEELS] };
    let fails = Wheels { teeth: 8, forbidden: [4, 3, 3, 3, 3, 3] };
    let explored = THREADS.map(|threads| explore(&holds, &with_threads(threads)).unwrap().counts);
    assert_eq!(explored[0], Counts { unique: 262_144, transitions: 1_572_864, depth: 42 });
    assert_eq!(explored, [explored[0]; 3]);
    let [one, two, four] = THREADS.map(|threads| {
        let exploration = explore(&fails, &with_threads(threads)).unwrap();
        (exploration.counts, trail_of(&exploration))
    });
    assert_eq!(one.1.actions, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
    assert_eq!((&one, &one), (&two, &four));
}

#[test]
fn search_agrees_with_stateright() {
    let jugs = agree_with_stateright(Jugs).unwrap();
    assert_eq!((jugs.unique, jugs.transitions), (16, 96));
    let counters = agree_with_stateright(Counters { most: 40, properties: below_three }).unwrap();
    assert_eq!((counters.unique, counters.depth), (1_681, 80));
    agree_with_stateright(Wheels { teeth: 5, forbidden: [0; WHEELS] }).unwrap();
    let join = agree_with_stateright(table(&[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)])).unwrap();
    assert_eq!(join, Counts { unique: 5, transitions: 5, depth: 3 });
}

#[test]
fn search_replays_what_it_found() {
    let model = Wheels { teeth: 4, forbidden: [2, 2, 2, 2, 2, 2] };
    let exploration = explore(&model, &Settings::default()).unwrap();
    let walk = trail_of(&exploration).walk(&model).unwrap();
    assert_eq!(walk.len(), 13);
    assert_eq!(walk.last().unwrap().1.iter().sum::<u8>(), 12);
}
