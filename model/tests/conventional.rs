//! The conventional design's variants: each must get its verdict, in the normal loop and under overlap.

use lockstep_model::conventional::rules::Rules;
use lockstep_model::conventional::{Hazard, Site, Surroundings, Variant, model, variants};
use lockstep_model::explore::{Counts, End, Exploration, Settings, Stall, explore, explore_live, stall};
use lockstep_model::model::WorldModel;
use lockstep_spec::invariant::no_stuck;
use lockstep_spec::ticket::Ticket;
use stateright::{Checker, Model};

const MOST_STATES: u64 = 300_000;

/// What an exploration says: the property that falls first, and on how short a path.
struct Judgement {
    fault: Option<(&'static str, usize)>,
    missing: Vec<String>,
    counts: Counts,
}

fn judge(hazard: &Hazard, overlap: bool) -> Judgement {
    let model = hazard.model(overlap);
    let settings = Settings { most_states: Some(MOST_STATES), ..Settings::default() };
    let exploration = explore_live(&model, &settings).expect("a model that can be explored");
    let length = |at| exploration.trail_to(at).actions.len();
    let fault = fault(&model, &exploration).map(|(property, at)| (property, length(at)));
    Judgement { fault, missing: exploration.missing, counts: exploration.counts }
}

/// The property that falls first, and the state in which it does.
fn fault(model: &WorldModel<Surroundings>, exploration: &Exploration) -> Option<(&'static str, u32)> {
    match &exploration.end {
        End::Violated { at, property } => Some((property, *at)),
        End::Stuck { at } => Some((no_stuck::PROPERTY.id, *at)),
        End::Exhausted => match stall(model, exploration)? {
            Stall::Trapped { at, .. } | Stall::Starved { at, .. } => Some((no_stuck::PROPERTY.id, at)),
        },
        End::Asserted { .. } | End::Unknown(_) => panic!("no verdict: {:?}", exploration.end),
    }
}

fn show(judgement: &Judgement) -> String {
    let said = judgement.fault.map(|(property, steps)| format!("{property} after {steps} steps"));
    format!("{}, {} states", said.unwrap_or_else(|| "holds".to_string()), judgement.counts.unique)
}

#[test]
fn variants_verdict_in_both_loops() {
    for hazard in variants() {
        let [normal, overlap] = [false, true].map(|overlap| {
            let judgement = judge(&hazard, overlap);
            let property = judgement.fault.map(|(property, _)| property);
            assert_eq!(property, hazard.expected(overlap), "{}, overlap {overlap}", hazard.name);
            judgement
        });
        println!("{:28} {} | {}", hazard.name, show(&normal), show(&overlap));
        if hazard.is_safe() {
            assert_eq!([normal.missing, overlap.missing].concat(), Vec::<String>::new(), "{}", hazard.name);
        }
    }
}

/// Unique states and steps as Stateright's breadth-first checker counts them, and as ours does. Stateright goes on to the end, because
/// what holds is never decided earlier.
fn counted(variant: Variant, overlap: bool, requests: usize) -> [(u64, u64); 2] {
    let make = || model(variant, overlap, 2, requests);
    let theirs = make().checker().spawn_bfs().join();
    let ours = explore(&make(), &Settings::default()).expect("a model that can be explored");
    assert_eq!(ours.end, End::Exhausted);
    let initial = 1;
    [
        (theirs.unique_state_count() as u64, theirs.state_count() as u64),
        (ours.counts.unique, ours.counts.transitions + initial),
    ]
}

#[test]
fn variants_that_hold_have_the_states_that_stateright_finds() {
    for hazard in variants().into_iter().filter(Hazard::is_safe) {
        for overlap in [false, true] {
            let [theirs, ours] = counted(hazard.variant, overlap, 1);
            assert_eq!(theirs, ours, "{}, overlap {overlap}", hazard.name);
        }
    }
}

#[test]
fn base_at_two_requests_has_the_states_that_stateright_finds() {
    let [theirs, ours] = counted(Variant::Base, false, 2);
    assert_eq!(theirs, ours);
}

/// The rows of the rules, as text: field and choice.
fn rows(rules: Rules) -> Vec<String> {
    format!("{rules:?}").split(", ").map(str::to_owned).collect()
}

fn rows_that_differ(one: Rules, other: Rules) -> usize {
    rows(one).into_iter().zip(rows(other)).filter(|(one, other)| one != other).count()
}

#[test]
fn variant_that_fails_is_one_row_away_from_one_that_holds() {
    let (hold, fail): (Vec<Hazard>, Vec<Hazard>) = variants().into_iter().partition(Hazard::is_safe);
    for hazard in fail {
        let rules = hazard.variant.rules();
        let neighbour = hold.iter().find(|held| rows_that_differ(held.variant.rules(), rules) == 1);
        assert!(neighbour.is_some(), "{} breaks more than one rule", hazard.name);
    }
}

/// What the ranks have entered when the violation is found.
fn entered_at_violation(variant: Variant) -> Vec<Ticket<Site>> {
    let model = model(variant, true, 2, 1);
    let exploration = explore(&model, &Settings::default()).expect("a model that can be explored");
    let trail = exploration.trail_to_fault().expect("a violation");
    let walk = trail.walk(&model).expect("a deterministic model");
    let (_, before) = &walk[walk.len() - 2];
    (0..2).filter_map(|rank| before.group.control.ticket(rank).copied()).collect()
}

#[test]
fn same_shape_cross_match_would_complete_on_the_wire() {
    let tickets = entered_at_violation(Variant::SameShapeCrossMatch);
    assert_eq!(tickets.len(), 2, "every rank is in a collective, so nobody would wait for ever");
    let [skipping, polling] = [tickets[0], tickets[1]];
    assert_eq!((skipping.site, polling.site), (Site::TransferPoll, Site::HandshakePoll));
    assert_eq!((skipping.kind, skipping.shape), (polling.kind, polling.shape));
}

#[test]
fn skipped_transfer_poll_would_not_complete_on_the_wire() {
    let tickets = entered_at_violation(Variant::TransferSkipLocalQueue);
    assert_eq!(tickets.len(), 2);
    assert_ne!(tickets[0].kind, tickets[1].kind);
}
