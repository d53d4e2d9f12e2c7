//! States at one distance from the initial ones, and how they are made again from the ways that lead to them.

use std::collections::VecDeque;

use super::error::ExploreError;
use super::model::Explorable;
use super::trail::{ROOT, Trails, actions};

/// States expanded between two looks at the budget. Fixed, because the counts of a search that ends early depend on
/// it; the order of ids does not.
const BLOCK: usize = 1 << 14;

/// States at one distance from the initial ones, in blocks that are dropped as soon as they are expanded.
pub(crate) struct Level<S> {
    blocks: VecDeque<Vec<S>>,
}

impl<S> Default for Level<S> {
    fn default() -> Self {
        Self { blocks: VecDeque::new() }
    }
}

impl<S> Level<S> {
    /// Whether every block was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Number of states.
    pub(crate) fn len(&self) -> u64 {
        self.blocks.iter().map(|block| block.len() as u64).sum()
    }

    /// Takes the next block out.
    pub(crate) fn pop(&mut self) -> Option<Vec<S>> {
        self.blocks.pop_front()
    }

    /// Adds the next state.
    pub(crate) fn push(&mut self, state: S) {
        match self.blocks.back_mut() {
            Some(block) if block.len() < BLOCK => block.push(state),
            Some(_) | None => self.blocks.push_back(vec![state]),
        }
    }
}

/// Makes the states with ids from `first` on again, in the order of ids, and hands each to `take`.
///
/// Ids are breadth-first, so parents come in the order of their children: a queue holds the states that still have children to come, about
/// one level of them. Only states on a way to a wanted one are made.
///
/// # Errors
/// [`ExploreError::Nondeterministic`] when the model does not repeat itself, and whatever `take` finds.
pub(crate) fn revive<M: Explorable>(
    model: &M,
    trails: &Trails,
    first: u32,
    take: &mut dyn FnMut(u32, M::State) -> Result<(), ExploreError>,
) -> Result<(), ExploreError> {
    let wanted = on_the_way(trails, first);
    let mut roots = model.init_states().into_iter().map(Some).collect::<Vec<_>>();
    let mut parents = Parents { model, open: VecDeque::new(), actions: None };
    for (id, origin) in (0u32..).zip(trails.origins()) {
        let is_parent = wanted.get(id as usize).copied();
        if is_parent == Some(false) {
            continue;
        }
        let state = if origin.parent == ROOT {
            roots.get_mut(origin.action as usize).and_then(Option::take)
        } else {
            parents.child(origin.parent, origin.action)
        };
        let state = state.ok_or(ExploreError::Nondeterministic)?;
        match is_parent {
            Some(_) => parents.open.push_back((id, state)),
            None => take(id, state)?,
        }
    }
    Ok(())
}

/// Of the states with ids below `first`: whether each is on the way to one from `first` on.
fn on_the_way(trails: &Trails, first: u32) -> Vec<bool> {
    let mut wanted = vec![false; first as usize];
    for (id, origin) in trails.origins().enumerate().rev() {
        if wanted.get(id).copied().unwrap_or(true)
            && let Some(parent) = wanted.get_mut(origin.parent as usize)
        {
            *parent = true;
        }
    }
    wanted
}

/// States with children to come, in the order of ids, and the actions of the first of them.
struct Parents<'a, M: Explorable> {
    model: &'a M,
    open: VecDeque<(u32, M::State)>,
    actions: Option<Vec<M::Action>>,
}

impl<M: Explorable> Parents<'_, M> {
    fn child(&mut self, parent: u32, action: u32) -> Option<M::State> {
        while self.open.front()?.0 < parent {
            self.open.pop_front();
            self.actions = None;
        }
        let (_, state) = self.open.front().filter(|(id, _)| *id == parent)?;
        let actions = self.actions.get_or_insert_with(|| actions(self.model, state));
        self.model.next_state(state, actions.get(action as usize)?.clone())
    }
}
