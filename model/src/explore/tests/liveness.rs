//! Progress on graphs with known answers, both ways.

use stateright::{Checker, Model, Property};

use super::models::{Table, table};
use crate::explore::{
    ExploreError, Settings, Stall, StateMarks, StepMarks, explore, explore_live, idle_marks, stall,
    turning_point,
};

fn judge(model: &Table) -> Option<Stall> {
    let exploration = explore_live(model, &Settings::default()).unwrap();
    stall(model, &exploration)
}

fn goal_is(node: u8, goal: u8) -> StateMarks {
    StateMarks { goal: node == goal, ..StateMarks::default() }
}

/// Pending in the nodes 1 to 9, and constraint k enabled as given.
fn waiting(node: u8, enabled: u32) -> StateMarks {
    StateMarks { goal: true, pending: u32::from((1..10).contains(&node)), enabled }
}

fn taken(taken: u32) -> StepMarks {
    StepMarks { benign: true, discharged: 0, taken }
}

#[test]
fn liveness_sees_the_cycle_that_eventually_misses() {
    let model = Table {
        properties: || vec![Property::eventually("goal", |_, node| *node == 9)],
        ..table(&[(0, 1), (1, 2), (2, 0)])
    };
    assert!(model.clone().checker().spawn_bfs().join().discoveries().is_empty());
    let ours = Table { properties: Vec::new, state: |node| goal_is(node, 9), ..model };
    assert_eq!(judge(&ours), Some(Stall::Trapped { at: 0, states: 3 }));
}

#[test]
fn liveness_sees_the_join_that_eventually_misses() {
    let edges = &[(0, 9), (0, 1), (9, 2), (1, 2), (2, 3)];
    let model = Table {
        properties: || vec![Property::eventually("goal", |_, node| *node == 9)],
        stops: &[3],
        ..table(edges)
    };
    assert!(model.clone().checker().spawn_bfs().join().discoveries().is_empty());
    let ours = Table { properties: Vec::new, state: |node| goal_is(node, 9), ..model };
    assert_eq!(judge(&ours), Some(Stall::Trapped { at: 2, states: 3 }));
}

#[test]
fn liveness_reports_the_first_trapped_state() {
    let region = &[(0, 1), (1, 0), (1, 2), (0, 4), (4, 0), (2, 3), (3, 2)];
    let trapped = Table { state: |node| goal_is(node, 4), ..table(region) };
    let exploration = explore_live(&trapped, &Settings::default()).unwrap();
    let Some(Stall::Trapped { at, states: 2 }) = stall(&trapped, &exploration) else { panic!("not trapped") };
    let walk = exploration.trails.to(at).walk(&trapped).unwrap();
    assert_eq!(walk.iter().map(|(_, node)| *node).collect::<Vec<_>>(), [0, 1, 2]);
    let open = Table {
        state: |node| goal_is(node, 4),
        ..table(&[(0, 1), (1, 0), (1, 2), (0, 4), (4, 0), (2, 3), (3, 0)])
    };
    assert_eq!(judge(&open), None);
}

#[test]
fn liveness_takes_only_benign_ways_to_the_goal() {
    let edges = &[(0, 1), (1, 0)];
    let luck = Table {
        state: |node| goal_is(node, 0),
        step: |from, _| StepMarks { benign: from != 1, ..StepMarks::default() },
        ..table(edges)
    };
    assert_eq!(judge(&luck), Some(Stall::Trapped { at: 1, states: 1 }));
    assert_eq!(judge(&Table { state: |node| goal_is(node, 0), ..table(edges) }), None);
}

#[test]
fn liveness_tells_fair_from_unfair_cycles() {
    let edges = &[(0, 1), (1, 2), (2, 1), (2, 0)];
    let always_enabled = Table {
        fairness: 1,
        state: |node| waiting(node, 1),
        step: |from, to| taken(u32::from((from, to) == (2, 0))),
        ..table(edges)
    };
    assert_eq!(
        judge(&always_enabled),
        None,
        "staying is unfair: the way out is always enabled and never taken"
    );
    let sometimes_disabled = Table { state: |node| waiting(node, u32::from(node != 1)), ..always_enabled };
    let starved = Stall::Starved { obligation: 0, at: 1, cycle: vec![0, 0] };
    assert_eq!(
        judge(&sometimes_disabled),
        Some(starved),
        "weak fairness lets it stay: the way out is disabled in 1"
    );
}

#[test]
fn liveness_tours_every_constraint_of_a_lasso() {
    let lasso = Table {
        fairness: 3,
        state: |node| waiting(node, if node == 3 { 0b011 } else { 0b111 }),
        step: |from, to| taken(u32::from((from, to) == (1, 2)) | u32::from((from, to) == (4, 1)) << 1),
        ..table(&[(0, 1), (1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (4, 1)])
    };
    let Some(Stall::Starved { at: 1, cycle, .. }) = judge(&lasso) else { panic!("not starved") };
    assert_eq!(cycle, [0, 0, 1, 0, 2, 0]);
    let one_missing =
        Table { fairness: 4, state: |node| waiting(node, if node == 3 { 0b1011 } else { 0b1111 }), ..lasso };
    assert_eq!(judge(&one_missing), None);
}

#[test]
fn liveness_does_not_stay_over_a_discharging_step() {
    let edges = &[(0, 1), (1, 2), (2, 1)];
    let replaced = Table {
        state: |node| waiting(node, 0),
        step: |from, _| StepMarks { benign: true, discharged: u32::from(from == 2), taken: 0 },
        ..table(edges)
    };
    assert_eq!(judge(&replaced), None);
    let kept = Table { step: |_, _| taken(0), ..replaced };
    assert_eq!(judge(&kept), Some(Stall::Starved { obligation: 0, at: 1, cycle: vec![0, 0] }));
}

#[test]
fn liveness_counts_an_end_with_something_pending() {
    let ends = Table { stops: &[1], state: |node| waiting(node, 0), ..table(&[(0, 1)]) };
    assert_eq!(judge(&ends), Some(Stall::Starved { obligation: 0, at: 1, cycle: Vec::new() }));
}

#[test]
fn liveness_marks_the_turning_point_of_a_fault() {
    let model = Table {
        properties: || vec![Property::always("not four", |_, node| *node != 4)],
        state: |node| goal_is(node, 9),
        ..table(&[(0, 9), (9, 0), (0, 1), (1, 2), (1, 9), (2, 3), (3, 4), (4, 9)])
    };
    let exploration = explore(&model, &Settings::default()).unwrap();
    let walk = exploration.trails.to(5).walk(&model).unwrap();
    assert_eq!(walk.iter().map(|(_, node)| *node).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(turning_point(&model, &walk), Some(2));
}

#[test]
fn liveness_refuses_more_constraints_than_bits() {
    let model = Table { fairness: 33, ..table(&[(0, 0)]) };
    let refused = explore_live(&model, &Settings::default()).err();
    assert_eq!(refused, Some(ExploreError::TooMany { what: "fairness constraints", listed: 33, limit: 32 }));
}

#[test]
fn liveness_names_marks_that_prove_nothing() {
    let missing = |model: &Table| idle_marks(model, &explore_live(model, &Settings::default()).unwrap());
    let edges = &[(0, 1), (1, 0)];
    let idle = Table {
        fairness: 2,
        state: |_| StateMarks { goal: true, pending: 0, enabled: 0b01 },
        ..table(edges)
    };
    assert_eq!(missing(&idle), ["obligation of the visitor", "fairness of constraint 0"]);
    let busy =
        Table { state: |node| waiting(node, 0b01), step: |from, _| taken(u32::from(from == 1)), ..idle };
    assert_eq!(missing(&busy), Vec::<String>::new());
}
