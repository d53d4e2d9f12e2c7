//! A protocol as a model: for our own explorer, and for Stateright's checkers.

use std::sync::Arc;

use lockstep_spec::invariant::{matched, no_fault, no_skip, no_stuck};
use stateright::{Model, Property};

use super::astray::Astray;
use super::cells::cells;
use super::design::{Claims, FactOf, Protocol, SiteOf, StateOf};
use super::events::events;
use super::state::{FIXED_ORDER, Step, after, first, steps};
use crate::explore::{Explorable, Lane, Live, Obligation, StateMarks, StepEvent, StepMarks, WAITS_IN};
use crate::world::Interleaving;

/// A protocol that can be explored.
#[derive(Debug)]
pub struct Checked<P: Protocol>(pub Arc<P>, Option<Astray<SiteOf<P>>>);

impl<P: Protocol> Checked<P> {
    /// The protocol as it is.
    pub fn new(protocol: impl Into<Arc<P>>) -> Self {
        Self(protocol.into(), None)
    }

    /// The same, with a rank that goes astray.
    pub(super) fn astray(&self, astray: Astray<SiteOf<P>>) -> Self {
        Self(Arc::clone(&self.0), Some(astray))
    }
}

/// The properties that hold of every protocol, as far as single states show them.
fn built_in<P: Protocol>() -> [Property<Checked<P>>; 4] {
    [
        Property::always(matched::PROPERTY.id, |_, state: &StateOf<P>| {
            state.violated() != Some(matched::PROPERTY.id)
        }),
        Property::always(no_skip::PROPERTY.id, |_, state: &StateOf<P>| {
            state.violated() != Some(no_skip::PROPERTY.id)
        }),
        Property::always(no_fault::PROPERTY.id, |_, state: &StateOf<P>| {
            state.violated() != Some(no_fault::PROPERTY.id)
        }),
        Property::always(FIXED_ORDER, |_, state: &StateOf<P>| state.violated() != Some(FIXED_ORDER)),
    ]
}

impl<P: Protocol> Model for Checked<P> {
    type State = StateOf<P>;
    type Action = Step<FactOf<P>, SiteOf<P>>;

    fn init_states(&self) -> Vec<StateOf<P>> {
        vec![first(&*self.0)]
    }

    fn actions(&self, state: &StateOf<P>, actions: &mut Vec<Self::Action>) {
        steps(&*self.0, state, actions);
    }

    /// A step that changes nothing is none: a rank that turns in vain does not keep its group from being stuck.
    fn next_state(&self, state: &StateOf<P>, action: Self::Action) -> Option<StateOf<P>> {
        Some(after(&*self.0, self.1.as_ref(), state, action)).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        built_in().into_iter().chain(Claims::of(&*self.0).properties).collect()
    }
}

impl<P: Protocol> Checked<P> {
    /// Whether nothing is wrong, nobody is in a collective, and nothing is left to do.
    fn rested(&self, state: &StateOf<P>) -> bool {
        let done = state.is_over() || (state.is_quiet() && self.0.rested(state));
        state.violated().is_none() && done
    }

    fn lane(&self, state: &StateOf<P>, rank: usize) -> Lane {
        let mut lane = Lane::new(format!("rank {rank}")).with(WAITS_IN, state.words(rank));
        lane.cells.extend(self.0.describe(&state.ranks[rank]));
        lane.cells.extend(state.has_left(rank).then(|| ("left".to_owned(), "yes".to_owned())));
        let fault = state.fault_of(rank);
        lane.cells.extend(fault.map(|fault| ("fault".to_owned(), format!("{fault:?}"))));
        lane
    }
}

impl<P: Protocol> Explorable for Checked<P> {
    fn may_stop(&self, state: &StateOf<P>) -> bool {
        self.rested(state)
    }

    fn lanes(&self, state: &StateOf<P>) -> Vec<Lane> {
        let ranks = (0..state.ranks.len()).map(|rank| self.lane(state, rank));
        let around = Lane { title: "around".to_owned(), cells: cells(&state.around) };
        ranks.chain((size_of::<P::Around>() > 0).then_some(around)).collect()
    }

    fn name_of_action(&self, action: &Self::Action) -> String {
        match action {
            Step::Fact(rank, fact) => format!("rank {rank} sees {fact:?}"),
            Step::Turn(rank) => format!("rank {rank} turns"),
            Step::Take(rank, ticket) => format!("{:?} completes on rank {rank}", ticket.site),
        }
    }

    fn events(&self, before: &StateOf<P>, action: &Self::Action, after: &StateOf<P>) -> Vec<StepEvent> {
        events(self, before, action, after)
    }

    /// A collective that runs on while its ranks go on is no round.
    fn between_rounds(&self, state: &StateOf<P>) -> bool {
        (0..state.ranks.len()).all(|rank| !state.waits(rank))
    }

    fn reductions(&self) -> Vec<&'static str> {
        let order = match self.0.interleaving() {
            Interleaving::Full => None,
            Interleaving::FixedOrder => Some(FIXED_ORDER),
        };
        order.into_iter().chain(["seen-at-once", "rebasing"]).collect()
    }

    /// Facts are not listed: a protocol may have none, and one that has says what they must bring about.
    fn kinds(&self) -> Vec<&'static str> {
        if self.0.meets() { vec!["turn", "completion"] } else { Vec::new() }
    }

    fn kind_of_action(&self, action: &Self::Action) -> usize {
        match action {
            Step::Turn(_) => 0,
            Step::Take(..) => 1,
            Step::Fact(..) => usize::MAX,
        }
    }
}

impl<P: Protocol> Live for Checked<P> {
    fn goal_property(&self) -> &'static str {
        no_stuck::PROPERTY.id
    }

    fn obligations(&self) -> Vec<Obligation> {
        Vec::new()
    }

    fn fairness(&self) -> Vec<String> {
        Vec::new()
    }

    fn mark_state(&self, state: &StateOf<P>) -> StateMarks {
        StateMarks { goal: self.rested(state), ..StateMarks::default() }
    }

    fn mark_step(&self, _: &StateOf<P>, action: &Self::Action, _: &StateOf<P>) -> StepMarks {
        let benign = match action {
            Step::Fact(_, fact) => self.0.benign(fact),
            Step::Turn(_) | Step::Take(..) => true,
        };
        StepMarks { benign, ..StepMarks::default() }
    }
}
