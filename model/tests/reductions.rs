//! Reductions and abstractions against what they stand for: the same verdicts, and the same agreed states between rounds.

use lockstep_model::agreed_level::AgreedLevel;
use lockstep_model::agreed_level::model::AgreedModel;
use lockstep_model::agreed_prefill::AgreedPrefill;
use lockstep_model::agreed_prefill::model::AgreedPrefillModel;
use lockstep_model::decode::Surroundings as DecodeWorld;
use lockstep_model::decode::setting::{Breakage, DecodeSetting, RequestKind};
use lockstep_model::epochs::front_end::{FrontEnd, Shipped as ShippedConduct};
use lockstep_model::epochs::model::EpochsModel;
use lockstep_model::epochs::setting::EpochsSetting;
use lockstep_model::explore::{
    Disagreement, End, Explorable, Exploration, Lane, Live, Notes, Settings, agree_with_stateright,
    explore_live, stall, tours,
};
use lockstep_model::model::WorldModel;
use lockstep_model::prefill::Surroundings as PrefillWorld;
use lockstep_model::prefill::setting::{PrefillSetting, Prompt};
use lockstep_model::rebase::Renaming;
use lockstep_model::world::{Completion, Environment, Interleaving, World};
use lockstep_spec::configuration::Votes;
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::decode::rules::{Pressure, Rules, Shipped};
use lockstep_spec::machine::{Position, RankMachine};
use lockstep_spec::prefill::leg::LegTenant;
use lockstep_spec::prefill::rules::{Rules as PrefillRules, Shipped as ShippedPrefill};
use lockstep_spec::role::Role;
use lockstep_spec::table::{Occupant, State};
use stateright::{Model, Property};
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

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
    let between = |world: &World<E>| world.group.control.is_empty() && world.group.ranks.iter().all(outside);
    let boundaries = reachable(model).into_iter().filter(between);
    boundaries.map(|world| canonical(world.group.ranks[0].state().value())).collect()
}

/// Whether exploration is exhausted without fault, and rest stays in reach.
fn holds<M: Live>(model: &M) -> bool {
    let sound = |found: Exploration| found.end == End::Exhausted && stall(model, &found).is_none();
    explore_live(model, &Settings::default()).is_ok_and(sound)
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
        breakage: &[Breakage::Transfer],
        ..DecodeSetting::new(ranks, slots, pages, true)
    }
}

fn prefill_setting() -> PrefillSetting {
    PrefillSetting {
        revocations: true,
        write_failures: true,
        hasty: true,
        late_facts: true,
        ..PrefillSetting::new(2, 1, true)
    }
}

/// A rule under which other states are reached: nobody gets pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AdmitsNobody;

impl Rules for AdmitsNobody {
    fn may_admit(_: Pressure) -> bool {
        false
    }
}

/// Another, of prefill: no leg is ever written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NeverWritten;

impl PrefillRules for NeverWritten {
    fn may_write(_: u32, _: u32) -> bool {
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

/// Facts may also reach a rank that waits: then words wait over a round.
#[test]
fn fixed_order_several_words() {
    let fixed = DecodeSetting { aborts: true, words: 2, ..DecodeSetting::new(2, 1, 3, true) };
    let full = DecodeSetting { interleaving: Interleaving::Full, ..fixed.clone() };
    let (fixed, full) = (decode::<Shipped>(&fixed), decode::<Shipped>(&full));
    assert!(holds(&fixed) && holds(&full));
    assert_eq!(between_rounds(&fixed), between_rounds(&full));
}

/// Against completions one by one in every interleaving: both reductions at once.
#[test]
fn completion_decode() {
    let together = DecodeSetting { breakage: &[], ..decode_setting(2, 1, 3) };
    let apart = DecodeSetting {
        completion: Completion::OneByOne,
        interleaving: Interleaving::Full,
        ..together.clone()
    };
    let (together, apart) = (decode::<Shipped>(&together), decode::<Shipped>(&apart));
    assert!(holds(&together) && holds(&apart));
    assert_eq!(between_rounds(&together), between_rounds(&apart));
}

#[test]
fn completion_prefill() {
    let together = prefill_setting();
    let apart = PrefillSetting { completion: Completion::OneByOne, ..together.clone() };
    let (together, apart) = (prefill(&together), prefill(&apart));
    assert!(holds(&together) && holds(&apart));
    assert_eq!(between_rounds(&together), between_rounds(&apart));
}

/// Votes that are reduced in the devices' queue wait for the forwards ahead of them, on each rank for its own.
#[test]
fn fixed_order_and_completion_of_votes_in_stream() {
    let mut fixed = DecodeSetting { aborts: true, ..DecodeSetting::new(2, 1, 3, true) };
    fixed.vote(Votes::Stream);
    let full = DecodeSetting { interleaving: Interleaving::Full, ..fixed.clone() };
    let apart = DecodeSetting { completion: Completion::OneByOne, ..full.clone() };
    let [fixed, full, apart] = [&fixed, &full, &apart].map(decode::<Shipped>);
    assert!(holds(&fixed) && holds(&full) && holds(&apart));
    assert_eq!(between_rounds(&fixed), between_rounds(&full));
    assert_eq!(between_rounds(&fixed), between_rounds(&apart));
}

#[test]
fn fixed_order_of_votes_in_stream_of_prefill() {
    let mut fixed = prefill_setting();
    fixed.vote(Votes::Stream);
    let full = PrefillSetting { interleaving: Interleaving::Full, ..fixed.clone() };
    let (fixed, full) = (prefill(&fixed), prefill(&full));
    assert!(holds(&fixed) && holds(&full));
    assert_eq!(between_rounds(&fixed), between_rounds(&full));
}

/// The worlds between rounds, each as its hash, with the ranks that do not lead in order.
fn arranged<E: Environment>(model: &WorldModel<E>) -> HashSet<u64> {
    let hash = |mut world: World<E>| {
        world.arrange();
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    reachable_by_hash(model).into_iter().filter(World::between_rounds).map(hash).collect()
}

/// All reachable states of which the hashes differ: of ranks in another order, only one.
fn reachable_by_hash<E: Environment>(model: &WorldModel<E>) -> Vec<World<E>> {
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    let mut open: VecDeque<World<E>> = model.init_states().into();
    while let Some(state) = open.pop_front() {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        open.extend(actions.into_iter().filter_map(|action| model.next_state(&state, action)));
        all.push(state);
    }
    all
}

/// Against transfers that land bit by bit, on ranks that keep their places: the same agreed states.
#[test]
fn bundled_facts_of_decode_ranks() {
    for (ranks, slots, pages) in [(3, 1, 3), (2, 2, 4)] {
        let apart = DecodeSetting::new(ranks, slots, pages, true);
        let bundled = DecodeSetting { bundled: true, symmetric: true, ..apart.clone() };
        let (apart, bundled) = (decode::<Shipped>(&apart), decode::<Shipped>(&bundled));
        assert!(holds(&apart) && holds(&bundled));
        assert_eq!(between_rounds(&apart), between_rounds(&bundled), "{ranks} × {slots}");
    }
}

/// Against ranks that keep their places: the same worlds between rounds, whatever order their ranks are in.
#[test]
fn symmetry_of_decode_ranks() {
    let apart = DecodeSetting { breakage: &[Breakage::Handshake], ..decode_setting(3, 1, 3) };
    let alike = DecodeSetting { symmetric: true, ..apart.clone() };
    let (apart, alike) = (decode::<Shipped>(&apart), decode::<Shipped>(&alike));
    assert!(holds(&apart) && holds(&alike));
    assert!(reachable_by_hash(&alike).len() < reachable_by_hash(&apart).len());
    assert_eq!(arranged(&apart), arranged(&alike));
}

#[test]
fn symmetry_of_prefill_ranks() {
    let apart = PrefillSetting { hasty: false, late_facts: false, ..PrefillSetting::new(3, 1, true) };
    let apart = PrefillSetting { write_failures: true, revocations: true, ..apart };
    let alike = PrefillSetting { symmetric: true, ..apart.clone() };
    let (apart, alike) = (prefill(&apart), prefill(&alike));
    assert!(holds(&apart) && holds(&alike));
    assert_eq!(arranged(&apart), arranged(&alike));
}

type Front = FrontEnd<ShippedConduct>;

/// Two ranks of which one may crash, with requests of one token.
fn epochs(interleaving: Interleaving) -> EpochsModel<Shipped, ShippedConduct> {
    let kinds = vec![RequestKind { prompt: 1, most: 1, stop_at: None }];
    let group = DecodeSetting { kinds, interleaving, ..DecodeSetting::new(2, 1, 3, true) };
    EpochsModel::new(EpochsSetting::new(&group, 1, 1))
}

/// What the front end knows, has been told, and is yet to be told, with its counters renamed as if there were nothing else.
fn front_ends(model: &EpochsModel<Shipped, ShippedConduct>) -> HashSet<Front> {
    let canonical = |mut front: Front| {
        let mut renaming = Renaming::default();
        renaming.collect(&mut front);
        renaming.rename(&mut front);
        front
    };
    reachable(model).into_iter().map(|state| canonical(state.world.environment.front_end)).collect()
}

#[test]
fn fixed_order_epochs() {
    let (fixed, full) = (epochs(Interleaving::FixedOrder), epochs(Interleaving::Full));
    assert!(holds(&fixed) && holds(&full));
    assert_eq!(front_ends(&fixed), front_ends(&full));
}

#[test]
fn fixed_order_comparison_sees_another_rule() {
    let fixed = decode_setting(2, 1, 3);
    let full = DecodeSetting { interleaving: Interleaving::Full, ..fixed.clone() };
    assert_ne!(between_rounds(&decode::<Shipped>(&fixed)), between_rounds(&decode::<AdmitsNobody>(&full)));
}

/// Agreed states of the N-rank world that the agreed level does not have.
fn beyond_agreed_level<R: Rules>(setting: &DecodeSetting) -> HashSet<State<Tenant>> {
    let agreed = reachable(&AgreedModel::<R>::new(setting.clone()));
    let agreed: HashSet<State<Tenant>> =
        agreed.iter().map(|level: &AgreedLevel| canonical(&level.state)).collect();
    let states = between_rounds(&decode::<Shipped>(setting));
    states.iter().map(canonical).filter(|state| !agreed.contains(state)).collect()
}

#[test]
fn agreed_level_contains_n_ranks() {
    for (ranks, slots, pages) in [(2, 1, 3), (3, 1, 3)] {
        let beyond = beyond_agreed_level::<Shipped>(&decode_setting(ranks, slots, pages));
        assert!(
            beyond.is_empty(),
            "{ranks} × {slots}: {} missing, such as {:?}",
            beyond.len(),
            beyond.iter().next()
        );
    }
}

/// Four ranks, whose handshakes fail: transfers that break make too many states for a test.
#[test]
fn agreed_level_contains_four_ranks() {
    let setting = DecodeSetting { breakage: &[Breakage::Handshake], ..decode_setting(4, 1, 3) };
    let beyond = beyond_agreed_level::<Shipped>(&setting);
    assert!(beyond.is_empty(), "{} missing, such as {:?}", beyond.len(), beyond.iter().next());
}

/// All that may break at once; and, since with these there are too many states, pauses and a group that leaves.
#[test]
fn agreed_level_contains_breakages_and_directions() {
    for overlap in [false, true] {
        let mut setting = DecodeSetting { aborts: true, ..DecodeSetting::new(2, 1, 3, overlap) };
        setting.kinds.truncate(1);
        let breaks = DecodeSetting { breakage: Breakage::ALL, ..setting.clone() };
        let directed = DecodeSetting { pause: true, shutdown: true, ..setting };
        for setting in [breaks, directed] {
            let beyond = beyond_agreed_level::<Shipped>(&setting);
            assert!(beyond.is_empty(), "{} missing, such as {:?}", beyond.len(), beyond.iter().next());
        }
    }
}

#[test]
fn agreed_level_contains_several_words() {
    let setting = DecodeSetting { aborts: true, words: 2, ..DecodeSetting::new(1, 2, 3, true) };
    let beyond = beyond_agreed_level::<Shipped>(&setting);
    assert!(beyond.is_empty(), "{} missing, such as {:?}", beyond.len(), beyond.iter().next());
}

#[test]
fn agreed_level_contains_two_slots() {
    let beyond = beyond_agreed_level::<Shipped>(&DecodeSetting::new(2, 2, 4, true));
    assert!(beyond.is_empty(), "{} missing, such as {:?}", beyond.len(), beyond.iter().next());
}

#[test]
fn agreed_level_contains_copies_on_hosts() {
    for host_pages in [1, 2] {
        let mut setting = DecodeSetting::new(2, 2, 4, true);
        setting.kinds[0] = RequestKind { prompt: 1, most: 4, stop_at: None };
        setting.host(host_pages);
        let beyond = beyond_agreed_level::<Shipped>(&setting);
        assert!(beyond.is_empty(), "{} missing, such as {:?}", beyond.len(), beyond.iter().next());
    }
}

#[test]
fn agreed_level_contains_votes_in_stream() {
    let mut setting = decode_setting(2, 1, 3);
    setting.vote(Votes::Stream);
    let beyond = beyond_agreed_level::<Shipped>(&setting);
    assert!(beyond.is_empty(), "{} missing, such as {:?}", beyond.len(), beyond.iter().next());
}

/// Agreed states of the N-rank world of a prefill group that the agreed level does not have.
fn beyond_agreed_prefill<R: PrefillRules>(setting: &PrefillSetting) -> HashSet<State<LegTenant>> {
    let agreed = reachable(&AgreedPrefillModel::<R>::new(setting.clone()));
    let agreed: HashSet<State<LegTenant>> =
        agreed.iter().map(|level: &AgreedPrefill| canonical(&level.state)).collect();
    let states = between_rounds(&prefill(setting));
    states.iter().map(canonical).filter(|state| !agreed.contains(state)).collect()
}

fn assert_contained(name: &str, setting: &PrefillSetting) {
    let beyond = beyond_agreed_prefill::<ShippedPrefill>(setting);
    assert!(beyond.is_empty(), "{name}: {} missing, such as {:#?}", beyond.len(), beyond.iter().next());
}

#[test]
fn agreed_prefill_contains_n_ranks() {
    assert_contained("everything, 2 × 1", &prefill_setting());
    let three = PrefillSetting { write_failures: true, ..PrefillSetting::new(3, 1, true) };
    assert_contained("revocations, 3 × 1", &PrefillSetting { revocations: true, ..three });
    assert_contained(
        "deadlines, 2 × 1",
        &PrefillSetting { deadlines: true, ..PrefillSetting::new(2, 1, true) },
    );
}

#[test]
fn agreed_prefill_comparison_sees_another_rule() {
    assert!(!beyond_agreed_prefill::<NeverWritten>(&prefill_setting()).is_empty());
}

#[test]
fn agreed_prefill_contains_two_slots() {
    assert_contained("plain, 2 × 2", &PrefillSetting::new(2, 2, true));
    let mut chunks = PrefillSetting { revocations: true, ..PrefillSetting::new(1, 2, true) };
    chunks.one_token_a_forward();
    assert_contained("chunks, 1 × 2", &chunks);
}

#[test]
fn agreed_prefill_contains_pages_that_are_kept() {
    let mut hosted = PrefillSetting { revocations: true, ..PrefillSetting::new(2, 1, true) };
    hosted.keep(2, 2, vec![Prompt::keyed(2, &[1]), Prompt::keyed(2, &[2])]);
    assert_contained("hosted, 2 × 1", &hosted);
}

#[test]
fn agreed_prefill_contains_pauses_and_votes_in_stream() {
    let mut setting = PrefillSetting { pause: true, revocations: true, ..PrefillSetting::new(2, 1, true) };
    assert_contained("pauses, 2 × 1", &setting);
    setting.vote(Votes::Stream);
    assert_contained("votes in the stream, 2 × 1", &setting);
}

#[test]
fn agreed_level_comparison_sees_another_rule() {
    assert!(!beyond_agreed_level::<AdmitsNobody>(&decode_setting(2, 1, 3)).is_empty());
}

/// A model that can be handed to several checkers.
struct Shared<M>(Arc<M>);

impl<M> Clone for Shared<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Model> Model for Shared<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<M::State> {
        self.0.init_states()
    }

    fn actions(&self, state: &M::State, actions: &mut Vec<M::Action>) {
        self.0.actions(state, actions);
    }

    fn next_state(&self, state: &M::State, action: M::Action) -> Option<M::State> {
        self.0.next_state(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Vec::new()
    }
}

impl<M: Explorable + Send> Explorable for Shared<M> {
    fn may_stop(&self, state: &M::State) -> bool {
        self.0.may_stop(state)
    }

    fn lanes(&self, state: &M::State) -> Vec<Lane> {
        self.0.lanes(state)
    }
}

/// How many states all checkers find.
fn agreed_count<M: Explorable + Send + 'static>(model: M) -> Result<u64, Disagreement> {
    agree_with_stateright(Shared(Arc::new(model))).map(|counts| counts.unique)
}

#[test]
fn stateright_agrees_on_each_model() {
    assert!(agreed_count(decode::<Shipped>(&decode_setting(2, 1, 3))).unwrap() > 1000);
    assert!(agreed_count(prefill(&prefill_setting())).unwrap() > 1000);
    assert!(agreed_count(epochs(Interleaving::FixedOrder)).unwrap() > 1000);
    assert!(agreed_count(AgreedModel::<Shipped>::new(DecodeSetting::new(2, 2, 4, true))).unwrap() > 100);
}

/// Rebasing against worlds that count on: along ways that take every edge between rounds, action by action.
fn counts_on<E: Environment>(model: &WorldModel<E>) {
    let renamed = |world: &World<E>| {
        let mut world = world.clone();
        world.rebase();
        world
    };
    let take = |world: &World<E>, choice: u32| {
        let mut offered = Vec::new();
        world.actions(&model.setting, &mut offered);
        offered.swap_remove(choice as usize)
    };
    let mut notes = Notes::default();
    for way in tours(model).ways {
        let (mut rebased, mut counted) =
            (World::<E>::genesis(&model.setting), World::genesis(&model.setting));
        for choice in way {
            let [action, same] = [take(&rebased, choice), take(&counted, choice)];
            assert_eq!(rebased.take(&model.setting, &action, &mut notes), Ok(()));
            assert_eq!(counted.take_as_counted(&model.setting, &same, &mut notes), Ok(()));
            if rebased.between_rounds() {
                assert_eq!(renamed(&counted), renamed(&rebased), "{action:?}");
            }
        }
    }
}

#[test]
fn reductions_rebasing_only_renames() {
    counts_on(&decode::<Shipped>(&DecodeSetting { pause: true, ..DecodeSetting::new(2, 1, 3, true) }));
    let everything = PrefillSetting {
        revocations: true,
        write_failures: true,
        hasty: true,
        late_facts: true,
        ..PrefillSetting::new(2, 1, true)
    };
    counts_on(&prefill(&everything));
}
