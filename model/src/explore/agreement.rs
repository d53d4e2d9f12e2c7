//! A second opinion: Stateright's own checkers must find the same states.

use stateright::{Checker, Model, Property};
use thiserror::Error;

use super::error::ExploreError;
use super::model::{Explorable, Lane};
use super::search::{Counts, End, Settings, explore};

/// Two explorers found different state spaces, or ours did not finish.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Disagreement {
    /// Another checker counts other states or steps.
    #[error("{checker} finds {theirs:?} (unique, generated) where this explorer finds {ours:?}")]
    Counts {
        /// The other checker.
        checker: &'static str,
        /// Its unique and generated states.
        theirs: (u64, u64),
        /// Ours.
        ours: (u64, u64),
    },
    /// Our explorer ended early.
    #[error("the exploration ended early: {0:?}")]
    Ended(End),
    /// Our explorer refused the model.
    #[error(transparent)]
    Refused(#[from] ExploreError),
}

/// Explores all of `model`, whatever its properties say, with this explorer and with Stateright's breadth-first and
/// depth-first checkers.
///
/// # Errors
/// [`Disagreement`] when they do not count the same unique states and steps.
pub fn agree_with_stateright<M>(model: M) -> Result<Counts, Disagreement>
where
    M: Explorable + Clone + Send + 'static,
{
    let bare = Bare(model);
    let exploration = explore(&bare, &Settings::default())?;
    if exploration.end != End::Exhausted {
        return Err(Disagreement::Ended(exploration.end));
    }
    let roots = exploration.trails.roots();
    let ours = (exploration.counts.unique, exploration.counts.transitions + roots);
    let breadth = bare.clone().checker().spawn_bfs().join();
    let depth = bare.checker().spawn_dfs().join();
    compare("Stateright's breadth-first checker", &breadth, ours)?;
    compare("Stateright's depth-first checker", &depth, ours)?;
    Ok(exploration.counts)
}

fn compare<M: Model>(
    checker: &'static str,
    theirs: &impl Checker<M>,
    ours: (u64, u64),
) -> Result<(), Disagreement> {
    let theirs = (theirs.unique_state_count() as u64, theirs.state_count() as u64);
    if theirs == ours { Ok(()) } else { Err(Disagreement::Counts { checker, theirs, ours }) }
}

/// A model with a property that never fails, because Stateright stops once every property is decided.
#[derive(Clone)]
struct Bare<M>(M);

impl<M: Explorable> Model for Bare<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<Self::State> {
        self.0.init_states()
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        self.0.actions(state, actions);
    }

    fn next_state(&self, state: &Self::State, action: Self::Action) -> Option<Self::State> {
        self.0.next_state(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("every state is visited", |_, _| true)]
    }

    fn within_boundary(&self, state: &Self::State) -> bool {
        self.0.within_boundary(state)
    }
}

impl<M: Explorable> Explorable for Bare<M> {
    fn may_stop(&self, _state: &Self::State) -> bool {
        true
    }

    fn lanes(&self, state: &Self::State) -> Vec<Lane> {
        self.0.lanes(state)
    }
}
