//! Interfaces a model offers to the explorer: what may end, how it is drawn, and what must go on.
//!
//! `Explorable` is enough for safety; `Live` adds the marks from which [`super::liveness`] judges progress.
//! Both extend `stateright::Model`, so that Stateright's own checkers run on the very same models.

use std::fmt::Debug;
use std::hash::Hash;

use serde::Serialize;
use stateright::Model;

use super::event::StepEvent;
use super::notes::Notes;

/// The cell that names the collective a lane waits in. Drawings that show entries and completions leave its changes out.
pub const WAITS_IN: &str = "waits in";

/// One column of a drawn state, usually a rank; the report shows the cells that differ from the step before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// Heading of the column; the same in every state of a model.
    pub title: String,
    /// Pairs of field and value, in the order in which they are drawn.
    pub cells: Vec<(String, String)>,
}

impl Lane {
    /// A lane without cells.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), cells: Vec::new() }
    }

    /// The lane with one more cell.
    #[must_use]
    pub fn with(mut self, field: impl Into<String>, value: impl ToString) -> Self {
        self.cells.push((field.into(), value.to_string()));
        self
    }

    /// The value of a cell, if it is there.
    #[must_use]
    pub fn value(&self, field: &str) -> Option<&str> {
        self.cells.iter().find(|(name, _)| name == field).map(|(_, value)| value.as_str())
    }
}

/// A model that can be explored exhaustively and whose runs can be drawn.
///
/// `init_states`, `actions` and `next_state` must be deterministic, order included: a path is kept as action
/// indices and rebuilt by replay.
pub trait Explorable:
    Model<State: Clone + Hash + Eq + Debug + Send + Sync, Action: Clone + Debug + PartialEq> + Sync
{
    /// Whether `state` is a proper end: it may have no successor. Any other state without one is stuck.
    fn may_stop(&self, state: &Self::State) -> bool;

    /// The drawing of `state`: the same titles in the same order for every state.
    fn lanes(&self, state: &Self::State) -> Vec<Lane>;

    /// The name of `action` in a counterexample.
    fn name_of_action(&self, action: &Self::Action) -> String {
        format!("{action:?}")
    }

    /// What happens in the step from `before` to `after`, in order. Drawings that know the kind of an event can say more than its name.
    fn events(&self, before: &Self::State, action: &Self::Action, _after: &Self::State) -> Vec<StepEvent> {
        let titles = self.lanes(before).into_iter().map(|lane| lane.title);
        vec![StepEvent::named(self.name_of_action(action), titles)]
    }

    /// The property that a stuck state violates.
    fn stuck_property(&self) -> &'static str {
        "no-stuck"
    }

    /// Whether every rank is between rounds in `state`. Reductions must leave these states as they are, so their number is told apart.
    fn between_rounds(&self, _state: &Self::State) -> bool {
        false
    }

    /// Names of the reductions that the model makes: interleavings or differences of state that it leaves out.
    fn reductions(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Names of the kinds of action, at most 128; each must fire in a run that is to hold, or the run is vacuous.
    fn kinds(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Names of what steps may cover, at most [`super::MOST_NOTES`]: what all runs together should.
    fn points(&self) -> Vec<String> {
        Vec::new()
    }

    /// As `next_state`; notes the indices in [`Explorable::points`] of what the step covers.
    fn next_noted(
        &self,
        state: &Self::State,
        action: Self::Action,
        _notes: &mut Notes,
    ) -> Option<Self::State> {
        self.next_state(state, action)
    }

    /// The traces that ranks write on the way of these actions, by their indices, from the first initial state: one for each rank of each
    /// group, in the order in which groups end. None where the ranks are not those of the program.
    fn traces(&self, _choices: &[u32]) -> Vec<String> {
        Vec::new()
    }

    /// The index in [`Explorable::kinds`] of the kind of `action`; one beyond the list is not counted.
    fn kind_of_action(&self, _action: &Self::Action) -> usize {
        0
    }
}

/// Something that must end once it is pending, such as "the request in slot 0".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obligation {
    /// The property that is violated when it stays pending for ever.
    pub property: &'static str,
    /// Whom it concerns, as a noun phrase.
    pub subject: String,
}

/// What liveness needs to know of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateMarks {
    /// The state is one of those that must stay reachable.
    pub goal: bool,
    /// Bit k: obligation k is pending.
    pub pending: u32,
    /// Bit k: fairness constraint k is enabled.
    pub enabled: u32,
}

/// What liveness needs to know of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepMarks {
    /// The step counts as a way to the goal (no failure, abort or other luck).
    pub benign: bool,
    /// Bit k: obligation k is met by this step, even if it is pending again after it.
    pub discharged: u32,
    /// Bit k: fairness constraint k is served by this step.
    pub taken: u32,
}

/// A model with progress to be shown.
///
/// Fairness is weak: a behaviour is fair if each constraint is, again and again, either disabled or taken. To mark a
/// constraint as enabled where no step takes it at once is to assume more than that; one that no step takes anywhere
/// makes the run vacuous.
pub trait Live: Explorable {
    /// The property violated in a state from which no benign steps lead to a goal.
    fn goal_property(&self) -> &'static str;

    /// The obligations, at most 31.
    fn obligations(&self) -> Vec<Obligation>;

    /// Names of the weak-fairness constraints, at most 32.
    fn fairness(&self) -> Vec<String>;

    /// The marks of a state.
    fn mark_state(&self, state: &Self::State) -> StateMarks;

    /// The marks of a step.
    fn mark_step(&self, from: &Self::State, action: &Self::Action, to: &Self::State) -> StepMarks;
}
