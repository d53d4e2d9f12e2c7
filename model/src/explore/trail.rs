//! Ways back to an initial state, and their replay.
//!
//! States are not kept: each id holds its parent's id and the index of the action taken there.

use std::io::{self, Read, Write};

use super::error::ExploreError;
use super::model::Explorable;
use super::seen::Origin;
use super::snapshot::{Store, load_each, store_all, unfit};

/// Parent of the initial states, whose action is their index in `init_states`.
pub(crate) const ROOT: u32 = u32::MAX;

/// The origin of each state, by id.
#[derive(Default)]
pub(crate) struct Trails {
    origins: Vec<Origin>,
}

impl Trails {
    /// Number of states.
    pub(crate) fn len(&self) -> usize {
        self.origins.len()
    }

    /// Number of initial states.
    pub(crate) fn roots(&self) -> u64 {
        self.origins.iter().take_while(|origin| origin.parent == ROOT).count() as u64
    }

    /// The origin of each state, by id.
    pub(crate) fn origins(&self) -> impl DoubleEndedIterator<Item = Origin> + ExactSizeIterator {
        self.origins.iter().copied()
    }

    /// Adds the next state.
    pub(crate) fn push(&mut self, origin: Origin) {
        self.origins.push(origin);
    }

    /// What [`Store::store`] wrote.
    pub(crate) fn load(input: &mut dyn Read) -> io::Result<Self> {
        let mut origins = Vec::new();
        load_each(input, &mut |(parent, action): (u32, u32)| {
            if parent != ROOT && parent as usize >= origins.len() {
                return Err(unfit("a state comes before its parent"));
            }
            origins.push(Origin { parent, action });
            Ok(())
        })?;
        Ok(Self { origins })
    }

    /// The shortest way to state `id`.
    pub(crate) fn to(&self, id: u32) -> Trail {
        let mut actions = Vec::new();
        let mut origin = self.origins[id as usize];
        while origin.parent != ROOT {
            actions.push(origin.action);
            origin = self.origins[origin.parent as usize];
        }
        actions.reverse();
        Trail { root: origin.action, actions }
    }
}

impl Store for Trails {
    fn store(&self, out: &mut dyn Write) -> io::Result<()> {
        store_all(out, self.origins.len(), self.origins().map(|origin| (origin.parent, origin.action)))
    }
}

/// A way through a model as indices: which initial state, and which action in each state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail {
    /// Index in `init_states`.
    pub root: u32,
    /// Index in `actions` of each state on the way.
    pub actions: Vec<u32>,
}

/// A way through a model as states: the first one, then each action with the state after it.
pub type Walk<M> = Vec<(Option<<M as stateright::Model>::Action>, <M as stateright::Model>::State)>;

impl Trail {
    /// The states and actions along the way.
    ///
    /// # Errors
    /// [`ExploreError::Nondeterministic`] when the model does not repeat itself.
    pub fn walk<M: Explorable>(&self, model: &M) -> Result<Walk<M>, ExploreError> {
        let mut state = nth(model.init_states(), self.root)?;
        let mut walk = vec![(None, state.clone())];
        for index in &self.actions {
            let action = nth(actions(model, &state), *index)?;
            state = model.next_state(&state, action.clone()).ok_or(ExploreError::Nondeterministic)?;
            walk.push((Some(action), state.clone()));
        }
        Ok(walk)
    }

    /// The walk, and then one step for each of `ordinals`: which of the state's steps to take.
    ///
    /// # Errors
    /// [`ExploreError::Nondeterministic`] when the model does not repeat itself.
    pub fn walk_on<M: Explorable>(&self, model: &M, ordinals: &[u32]) -> Result<Walk<M>, ExploreError> {
        let mut walk = self.walk(model)?;
        for ordinal in ordinals {
            let (_, state) = walk.last().ok_or(ExploreError::Nondeterministic)?;
            let (action, next) = nth(steps(model, state), *ordinal)?;
            walk.push((Some(action), next));
        }
        Ok(walk)
    }
}

/// The actions of `state`, in the model's order.
pub(crate) fn actions<M: Explorable>(model: &M, state: &M::State) -> Vec<M::Action> {
    let mut actions = Vec::new();
    model.actions(state, &mut actions);
    actions
}

/// The steps out of `state` that lead somewhere inside the boundary, in the model's order.
pub(crate) fn steps<M: Explorable>(model: &M, state: &M::State) -> Vec<(M::Action, M::State)> {
    let to = |action: M::Action| Some((action.clone(), model.next_state(state, action)?));
    actions(model, state).into_iter().filter_map(to).filter(|(_, next)| model.within_boundary(next)).collect()
}

fn nth<T>(items: Vec<T>, index: u32) -> Result<T, ExploreError> {
    items.into_iter().nth(index as usize).ok_or(ExploreError::Nondeterministic)
}
