//! Reductions and abstractions against what they stand for: the same verdicts, and the same agreed states between rounds.

use lockstep_model::agreed_level::AgreedLevel;
use lockstep_model::agreed_level::model::AgreedModel;
use lockstep_model::decode::Surroundings as DecodeWorld;
use lockstep_model::decode::setting::{Breakage, DecodeSetting};
use lockstep_model::explore::{End, Live, Settings, agree_with_stateright, explore_live, stall};
use lockstep_model::model::WorldModel;
use lockstep_model::prefill::Surroundings as PrefillWorld;
use lockstep_model::prefill::setting::PrefillSetting;
use lockstep_model::rebase::Renaming;
use lockstep_model::world::{Environment, Interleaving, World};
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::decode::rules::{Pressure, Rules, Shipped};
use lockstep_spec::machine::{Position, RankMachine};
use lockstep_spec::prefill::rules::Shipped as ShippedPrefill;
use lockstep_spec::role::Role;
use lockstep_spec::table::{Occupant, State};
use stateright::Model;
use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// All reachable states.
fn reachable<M: Model<State: Clone + Eq + Hash>>(model: &M) -> HashSet<M::State> {
    let mut seen: HashSet<M::State> = model.init_states().into_iter().collect();
    let mut open: VecDeque<M::State> = seen.iter().cloned().collect();
    while let Some(state) = open.pop_front() {
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        for next in actions.into_iter().filter_map(|action| model.next_state(&state, action)) {
            if seen.insert(next.clone()) {
                open.push_back(next);
            }
        }
    }
    seen
}

/// An agreed state with its counters renamed as if there were nothing else.
fn canonical<O: Occupant>(state: &State<O>) -> State<O> {
    let mut state = state.clone();
    let mut renaming = Renaming::default();
    renaming.collect(&mut state);
    renaming.rename(&mut state);
    state
}

/// The agreed states that a world has between rounds.
fn between_rounds<E, R>(model: &WorldModel<E>) -> HashSet<State<R::Occupant>>
where
    E: Environment<Program = RankMachine<R>>,
    R: Role,
{
    let outside = |rank: &RankMachine<R>| *rank.position() == Position::Outside;
    let between = |world: &World<E>| world.control.is_empty() && world.ranks.iter().all(outside);
    let boundaries = reachable(model).into_iter().filter(between);
    boundaries.map(|world| canonical(world.ranks[0].state().value())).collect()
}

/// Whether exploration is exhausted without fault, and rest stays in reach.
fn holds<M: Live>(model: &M) -> bool {
    let exploration = explore_live(model, &Settings::default()).unwrap();
    exploration.end == End::Exhausted && stall(model, &exploration).is_none()
}

fn decode<R: Rules>(setting: &DecodeSetting) -> WorldModel<DecodeWorld<R>> {
    WorldModel::new(setting.clone())
}

fn prefill(setting: &PrefillSetting) -> WorldModel<PrefillWorld<ShippedPrefill>> {
    WorldModel::new(setting.clone())
}

fn decode_setting(ranks: u32, slots: u32, pages: u32) -> DecodeSetting {
    DecodeSetting {
        aborts: true,
        breakage: Breakage::Transfer,
        ..DecodeSetting::new(ranks, slots, pages, true)
    }
}

fn prefill_setting() -> PrefillSetting {
    PrefillSetting { revocations: true, write_failures: true, ..PrefillSetting::new(2, 1, true) }
}

/// Admits nobody while a forward is in flight or not: a rule that leaves states out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AdmitsNobody;

impl Rules for AdmitsNobody {
    fn may_admit(_: Pressure) -> bool {
        false
    }
}

#[test]
fn fixed_order_decode() {
    let fixed = decode_setting(2, 1, 3);
    let full = DecodeSetting { interleaving: Interleaving::Full, ..fixed.clone() };
    let (fixed, full) = (decode::<Shipped>(&fixed), decode::<Shipped>(&full));
    assert!(holds(&fixed) && holds(&full));
    assert_eq!(between_rounds(&fixed), between_rounds(&full));
}

#[test]
fn fixed_order_prefill() {
    let fixed = prefill_setting();
    let full = PrefillSetting { interleaving: Interleaving::Full, ..fixed.clone() };
    let (fixed, full) = (prefill(&fixed), prefill(&full));
    assert!(holds(&fixed) && holds(&full));
    assert_eq!(between_rounds(&fixed), between_rounds(&full));
}

#[test]
fn fixed_order_comparison_sees_another_rule() {
    let setting = decode_setting(2, 1, 3);
    let (shipped, other) =
        (between_rounds(&decode::<Shipped>(&setting)), between_rounds(&decode::<AdmitsNobody>(&setting)));
    assert_ne!(shipped, other);
    assert!(other.is_subset(&shipped));
}

/// Agreed states of the N-rank world that the agreed level does not have.
fn beyond_agreed_level<R: Rules>(setting: &DecodeSetting) -> Vec<State<Tenant>> {
    let agreed = reachable(&AgreedModel::<R>::new(setting.clone()));
    let agreed: HashSet<State<Tenant>> =
        agreed.iter().map(|level: &AgreedLevel| canonical(&level.state)).collect();
    between_rounds(&decode::<Shipped>(setting)).into_iter().filter(|state| !agreed.contains(state)).collect()
}

#[test]
fn agreed_level_contains_n_ranks() {
    for (ranks, slots, pages) in [(2, 1, 3), (3, 1, 3)] {
        let beyond = beyond_agreed_level::<Shipped>(&decode_setting(ranks, slots, pages));
        assert!(
            beyond.is_empty(),
            "{ranks} × {slots}: {} missing, such as {:?}",
            beyond.len(),
            beyond.first()
        );
    }
}

#[test]
fn agreed_level_contains_two_slots() {
    let beyond = beyond_agreed_level::<Shipped>(&DecodeSetting::new(2, 2, 4, true));
    assert!(beyond.is_empty(), "{} missing, such as {:?}", beyond.len(), beyond.first());
}

#[test]
fn agreed_level_comparison_sees_another_rule() {
    assert!(!beyond_agreed_level::<AdmitsNobody>(&decode_setting(2, 1, 3)).is_empty());
}
