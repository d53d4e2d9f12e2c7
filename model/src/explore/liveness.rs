//! Progress, judged on the recorded graph of an exhausted search.
//!
//! Two questions: can a goal still be reached from everywhere (no fairness needed), and can an obligation stay
//! pending for ever under weak fairness. Stateright's `eventually` answers neither on a system that loops.

use std::collections::BTreeSet;

use super::cycles::{Lasso, fair_cycle};
use super::error::ExploreError;
use super::expand::Marking;
use super::fingerprint::fingerprint;
use super::graph::{MOST_FAIRNESS, MOST_OBLIGATIONS};
use super::model::Live;
use super::search::{End, Exploration, Settings, limit, search};
use super::trail::{Walk, steps};

/// States that [`turning_point`] may look at for each state of a path.
const TURNING_POINT_STATES: usize = 200_000;

/// How progress fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stall {
    /// An obligation stays pending on a fair cycle.
    Starved {
        /// Index of the obligation.
        obligation: usize,
        /// First state of the cycle.
        at: u32,
        /// Which of its steps each state of the cycle takes; empty when the state has none.
        cycle: Vec<u32>,
    },
    /// No benign steps lead from this state to a goal.
    Trapped {
        /// The first such state in breadth-first order: the point of no return.
        at: u32,
        /// Number of such states.
        states: u64,
    },
}

/// Explores `model` as [`super::explore`] does, and records its graph for [`stall`].
///
/// # Errors
/// Any [`ExploreError`] but `Nondeterministic`, before a single state is expanded.
pub fn explore_live<M: Live>(model: &M, settings: &Settings<'_>) -> Result<Exploration, ExploreError> {
    limit("obligations", model.obligations().len(), MOST_OBLIGATIONS)?;
    limit("fairness constraints", model.fairness().len(), MOST_FAIRNESS)?;
    let marking = Marking {
        state: |model: &M, state| model.mark_state(state).pack(),
        step: |model: &M, from, action, to| model.mark_step(from, action, to).pack(),
    };
    search(model, settings, Some(marking))
}

/// The first way in which `model` fails to progress, if its exploration was exhausted.
#[must_use]
pub fn stall<M: Live>(model: &M, exploration: &Exploration) -> Option<Stall> {
    let graph = exploration.graph.as_ref().filter(|_| exploration.end == End::Exhausted)?;
    let trapped = graph.trapped();
    if let Some(at) = trapped.first() {
        return Some(Stall::Trapped { at: *at, states: trapped.len() as u64 });
    }
    let constraints = model.fairness().len();
    let starved = |obligation| fair_cycle(graph, obligation, constraints).map(|lasso| (obligation, lasso));
    let (obligation, Lasso { at, cycle }) = (0..model.obligations().len()).find_map(starved)?;
    Some(Stall::Starved { obligation, at, cycle })
}

/// Obligations that are never pending and fairness constraints that are enabled but never taken: with either, what is
/// said of progress may be true for no good reason.
#[must_use]
pub fn idle_marks<M: Live>(model: &M, exploration: &Exploration) -> Vec<String> {
    let Some(graph) = &exploration.graph else { return Vec::new() };
    let (pending, silent) = (graph.ever_pending(), graph.never_taken());
    let obligations =
        model.obligations().into_iter().enumerate().filter(|(index, _)| pending & (1 << index) == 0);
    let constraints =
        model.fairness().into_iter().enumerate().filter(|(index, _)| silent & (1 << index) != 0);
    let obligations = obligations.map(|(_, owed)| format!("obligation of {}", owed.subject));
    obligations.chain(constraints.map(|(_, name)| format!("fairness of {name}"))).collect()
}

/// The first step of `walk`, which ends in a fault, after which no benign steps lead to a goal any more.
///
/// `None` if the goal stays in reach up to the fault, was never in reach, or would take too many states to decide.
#[must_use]
pub fn turning_point<M: Live>(model: &M, walk: &Walk<M>) -> Option<usize> {
    let before_fault = walk.len().checked_sub(1)?;
    for (index, (_, state)) in walk.iter().enumerate().take(before_fault).rev() {
        if goal_in_reach(model, state)? {
            return Some(index + 1);
        }
    }
    None
}

/// Whether benign steps through sound states lead from `state` to a goal; `None` if that takes too long to tell.
pub(crate) fn goal_in_reach<M: Live>(model: &M, state: &M::State) -> Option<bool> {
    let mut seen = BTreeSet::new();
    let mut open = vec![state.clone()];
    while let Some(state) = open.pop() {
        if !seen.insert(fingerprint(&state)) || !sound(model, &state) {
            continue;
        }
        if model.mark_state(&state).goal {
            return Some(true);
        }
        if seen.len() > TURNING_POINT_STATES {
            return None;
        }
        let benign = |(action, next): &(M::Action, M::State)| model.mark_step(&state, action, next).benign;
        open.extend(steps(model, &state).into_iter().filter(benign).map(|(_, next)| next));
    }
    Some(false)
}

fn sound<M: Live>(model: &M, state: &M::State) -> bool {
    let holds = |property: &stateright::Property<M>| (property.condition)(model, state);
    model
        .properties()
        .iter()
        .filter(|property| matches!(property.expectation, stateright::Expectation::Always))
        .all(holds)
}
