//! A world as a model: for Stateright's checkers and for our own explorer.

use crate::entries::step_events;
use crate::explore::{Explorable, Lane, Live, Notes, Obligation, StateMarks, StepEvent, StepMarks, WAITS_IN};
use crate::traces::offered;
use crate::world::{Action, Completion, Environment, FactOf, Interleaving, World};
use lockstep_spec::invariant::{self, no_stuck};
use stateright::{Model, Property};

/// A witness: a situation that a run must reach, or it proved nothing about it.
pub type Witness<E> = (&'static str, fn(&WorldModel<E>, &World<E>) -> bool);

/// A world under a setting.
#[derive(Debug)]
pub struct WorldModel<E: Environment> {
    /// Bounds and choices.
    pub setting: E::Setting,
    /// What must be reached.
    pub witnesses: Vec<Witness<E>>,
}

impl<E: Environment> WorldModel<E> {
    /// A world under a setting, with nothing to witness.
    pub fn new(setting: E::Setting) -> Self {
        Self { setting, witnesses: Vec::new() }
    }

    /// The same with witnesses.
    #[must_use]
    pub fn witnessing(mut self, witnesses: Vec<Witness<E>>) -> Self {
        self.witnesses = witnesses;
        self
    }
}

/// The `PROPERTY`-th of all properties, as far as single states show it.
fn always<E: Environment, const PROPERTY: usize>() -> Property<WorldModel<E>> {
    let id = invariant::ALL[PROPERTY].id;
    Property::always(id, |_, world: &World<E>| world.violation != Some(invariant::ALL[PROPERTY].id))
}

impl<E: Environment> Model for WorldModel<E> {
    type State = World<E>;
    type Action = Action<FactOf<E>>;

    fn init_states(&self) -> Vec<World<E>> {
        vec![World::genesis(&self.setting)]
    }

    fn actions(&self, state: &World<E>, actions: &mut Vec<Self::Action>) {
        state.actions(&self.setting, actions);
    }

    fn next_state(&self, state: &World<E>, action: Self::Action) -> Option<World<E>> {
        Some(state.after(&self.setting, &action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            always::<E, 0>(),
            always::<E, 1>(),
            always::<E, 3>(),
            always::<E, 4>(),
            always::<E, 5>(),
            always::<E, 6>(),
            always::<E, 7>(),
            always::<E, 8>(),
        ];
        properties.extend(E::TELLS.then(always::<E, 11>));
        let witnesses = self.witnesses.iter().map(|(name, reached)| Property::sometimes(name, *reached));
        properties.extend(witnesses);
        properties
    }
}

impl<E: Environment> Explorable for WorldModel<E> {
    fn may_stop(&self, state: &World<E>) -> bool {
        state.group.ranks.iter().all(E::left)
    }

    fn lanes(&self, state: &World<E>) -> Vec<Lane> {
        let lane = |(index, rank)| {
            let mut lane = Lane::new(format!("rank {index}"));
            let entered = state.group.control.ticket(index);
            lane.cells.push((WAITS_IN.to_string(), entered.map_or("-".to_string(), |t| format!("{t:?}"))));
            lane.cells.extend(state.environment.describe(rank, index));
            lane
        };
        state.group.ranks.iter().enumerate().map(lane).collect()
    }

    fn name_of_action(&self, action: &Self::Action) -> String {
        match action {
            Action::Fact(rank, fact) => format!("rank {rank} sees {fact:?}"),
            Action::Retire(rank) => format!("rank {rank}'s forward retires"),
            Action::Turn(rank) => format!("rank {rank} turns"),
            Action::Complete => "the collective completes".to_string(),
            Action::Take(rank) => format!("the collective completes on rank {rank}"),
        }
    }

    fn between_rounds(&self, world: &World<E>) -> bool {
        world.between_rounds()
    }

    fn reductions(&self) -> Vec<&'static str> {
        let order = match E::interleaving(&self.setting) {
            Interleaving::Full => None,
            Interleaving::FixedOrder => Some("fixed-order"),
        };
        let completion = match E::completion(&self.setting) {
            Completion::OneByOne => "two-turns",
            Completion::Together => "atomic-completion",
        };
        let symmetry = E::symmetric(&self.setting).then_some("symmetry");
        let bundles = E::bundled(&self.setting).then_some("bundled-facts");
        let always = [completion, "seen-at-once", "rebasing"];
        order.into_iter().chain(always).chain(symmetry).chain(bundles).collect()
    }

    fn events(&self, before: &World<E>, action: &Self::Action, after: &World<E>) -> Vec<StepEvent> {
        step_events(before, action, after)
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["fact", "turn", "complete"]
    }

    fn points(&self) -> Vec<String> {
        E::points()
    }

    fn next_noted(&self, state: &World<E>, action: Self::Action, notes: &mut Notes) -> Option<World<E>> {
        Some(state.after_noted(&self.setting, &action, notes))
    }

    fn traces(&self, choices: &[u32]) -> Vec<String> {
        let mut world: World<E> = World::genesis(&self.setting);
        world.group.keep_log();
        for choice in choices {
            let action = offered(*choice, |offered| world.actions(&self.setting, offered));
            if world.take_as_counted(&self.setting, &action, &mut Notes::default()).is_err() {
                break;
            }
        }
        E::traces(&self.setting, world.group.take_log())
    }

    fn kind_of_action(&self, action: &Self::Action) -> usize {
        match action {
            Action::Fact(..) => 0,
            Action::Turn(_) => 1,
            Action::Complete | Action::Take(_) => 2,
            // As a fact that has retired, it is a point.
            Action::Retire(_) => usize::MAX,
        }
    }
}

impl<E: Environment> Live for WorldModel<E> {
    fn goal_property(&self) -> &'static str {
        no_stuck::PROPERTY.id
    }

    fn obligations(&self) -> Vec<Obligation> {
        E::obligations(&self.setting)
    }

    /// The turns of the ranks, a completion, what the devices finish, and what is owed.
    fn fairness(&self) -> Vec<String> {
        if !self.fair() {
            return Vec::new();
        }
        let ranks = E::genesis(&self.setting).0.len();
        let turns = (0..ranks).map(|rank| format!("rank {rank} turns"));
        let retirements = (0..ranks).map(|rank| format!("rank {rank}'s forwards retire"));
        let completion = std::iter::once("collectives complete".to_string());
        turns.chain(completion).chain(retirements).chain(E::owed(&self.setting)).collect()
    }

    /// What may happen to a rank stays possible until it does, also while the order of steps gives another rank the turn.
    fn mark_state(&self, state: &World<E>) -> StateMarks {
        let goal = state.rested(&self.setting);
        if !self.fair() {
            return StateMarks { goal, ..StateMarks::default() };
        }
        let mut actions = Vec::new();
        state.actions_of_all(&self.setting, &mut actions);
        let constraints = actions.iter().filter_map(|action| self.constraint(state, action));
        let enabled = constraints.fold(0, |enabled, index| enabled | 1 << index);
        StateMarks { goal, pending: E::pending(&state.group.ranks), enabled }
    }

    fn mark_step(&self, from: &World<E>, action: &Self::Action, _: &World<E>) -> StepMarks {
        let benign = match action {
            Action::Fact(_, fact) => E::benign(fact),
            Action::Retire(_) | Action::Turn(_) | Action::Complete | Action::Take(_) => true,
        };
        let taken = self.constraint(from, action).filter(|_| self.fair()).map_or(0, |index| 1 << index);
        StepMarks { benign, discharged: 0, taken }
    }
}

impl<E: Environment> WorldModel<E> {
    fn fair(&self) -> bool {
        !E::obligations(&self.setting).is_empty()
    }

    /// The fairness constraint that a step serves.
    fn constraint(&self, state: &World<E>, action: &Action<FactOf<E>>) -> Option<usize> {
        let ranks = state.group.ranks.len();
        match action {
            Action::Turn(rank) => Some(*rank),
            Action::Complete | Action::Take(_) => Some(ranks),
            Action::Retire(rank) => Some(ranks + 1 + rank),
            Action::Fact(rank, fact) => Some(2 * ranks + 1 + E::owes(&self.setting, *rank, fact)?),
        }
    }
}
