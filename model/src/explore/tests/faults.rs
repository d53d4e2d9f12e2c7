//! Every way a search can end but exhausted and violated: stuck, asserted, unknown, vacuous, refused.

use std::time::Duration;

use stateright::{Model, Property};

use super::models::{Counters, Table, WHEELS, Wheels, table};
use crate::explore::{
    End, Explorable, ExploreError, Lane, Settings, Unknown, agree_with_stateright, explore,
};

#[test]
fn faults_stuck_unless_the_state_may_stop() {
    let edges = &[(0, 1), (0, 2), (1, 0)];
    let stuck = explore(&table(edges), &Settings::default()).unwrap();
    assert_eq!(stuck.end, End::Stuck { at: 2 });
    assert_eq!(stuck.trails.to(2).actions, [1]);
    let stops = explore(&Table { stops: &[2], ..table(edges) }, &Settings::default()).unwrap();
    assert_eq!(stops.end, End::Exhausted);
}

#[test]
fn faults_assertion_names_the_step() {
    let exploration = explore(&table(&[(0, 1), (1, 0), (1, 255)]), &Settings::default()).unwrap();
    let message = "the last node must not be entered".to_owned();
    assert_eq!(exploration.end, End::Asserted { at: 1, action: Some(1), message });
}

#[test]
fn faults_budget_of_states_is_never_a_pass() {
    let model = Wheels { teeth: 8, forbidden: [7; WHEELS] };
    let capped = Settings { most_states: Some(1_000), ..Settings::default() };
    assert_eq!(explore(&model, &capped).unwrap().end, End::Unknown(Unknown::States));
    let enough = Settings { most_states: Some(262_144), ..Settings::default() };
    assert!(matches!(explore(&model, &enough).unwrap().end, End::Violated { .. }));
}

#[test]
fn faults_budget_of_time_holds_on_one_thread() {
    let model = Wheels { teeth: 8, forbidden: [u8::MAX; WHEELS] };
    let hurried = Settings { threads: 1, most_time: Some(Duration::from_millis(1)), ..Settings::default() };
    assert_eq!(explore(&model, &hurried).unwrap().end, End::Unknown(Unknown::Time));
}

#[test]
fn faults_missing_names_witnesses_and_silent_actions() {
    let model = Table {
        properties: || {
            vec![
                Property::sometimes("five", |_, node| *node == 5),
                Property::sometimes("two", |_, node| *node == 2),
            ]
        },
        ..table(&[(0, 2), (2, 0)])
    };
    let exploration = explore(&model, &Settings::default()).unwrap();
    assert_eq!(exploration.missing, ["five", "action odd"]);
}

#[test]
fn faults_eventually_is_refused() {
    let model = Table { properties: || vec![Property::eventually("done", |_, _| false)], ..table(&[(0, 0)]) };
    let refused = explore(&model, &Settings::default()).err();
    assert_eq!(refused, Some(ExploreError::Eventually { name: "done" }));
}

#[test]
fn faults_too_many_properties_are_refused() {
    let properties = || vec![Property::<Counters>::always("same", |_, _| true); 65];
    let refused = explore(&Counters { most: 1, properties }, &Settings::default()).err();
    assert_eq!(refused, Some(ExploreError::TooMany { what: "properties", listed: 65, limit: 64 }));
}

/// A chain that is cut off by its boundary after `inside` states.
#[derive(Clone)]
struct Chain {
    inside: u32,
}

impl Model for Chain {
    type State = u32;
    type Action = ();

    fn init_states(&self) -> Vec<u32> {
        vec![0]
    }

    fn actions(&self, _state: &u32, actions: &mut Vec<()>) {
        actions.push(());
    }

    fn next_state(&self, state: &u32, (): ()) -> Option<u32> {
        Some(state + 1)
    }

    fn within_boundary(&self, state: &u32) -> bool {
        *state < self.inside
    }
}

impl Explorable for Chain {
    fn may_stop(&self, _state: &u32) -> bool {
        false
    }

    fn lanes(&self, _state: &u32) -> Vec<Lane> {
        Vec::new()
    }
}

#[test]
fn faults_boundary_is_counted_and_never_a_pass() {
    let exploration = explore(&Chain { inside: 30_000 }, &Settings::default()).unwrap();
    assert_eq!(exploration.end, End::Unknown(Unknown::Boundary { cut: 1 }));
    assert_eq!((exploration.counts.unique, exploration.counts.depth), (30_000, 29_999));
    assert!(agree_with_stateright(Chain { inside: 10 }).is_err());
}

#[test]
fn faults_without_initial_state_is_refused() {
    assert_eq!(explore(&Chain { inside: 0 }, &Settings::default()).err(), Some(ExploreError::NoInitialState));
}
