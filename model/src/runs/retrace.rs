//! Recorded steps taken again on a model: how far they lead, and what is wrong there.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stateright::Expectation;

use super::outcome::Kind;
use super::runner::ASSERTION;
use crate::explore::{
    Explorable, Live, StateMarks, StepMarks, Walk, actions, goal_in_reach, message_of, steps,
};
use crate::report::Story;

/// A step to be taken again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptStep {
    /// By the name of the action.
    Named {
        /// The name.
        action: String,
        /// Which of the actions with this name is meant, as an index among all; the first of that name if another is there.
        choice: Option<u32>,
    },
    /// By the index of the action among all.
    Nth(u32),
}

impl ScriptStep {
    /// Where the action is among those that are possible.
    fn place(&self, names: &[String]) -> Option<usize> {
        match self {
            Self::Named { action, choice } => {
                let named = |index: &usize| names.get(*index) == Some(action);
                let recorded = choice.map(|choice| choice as usize).filter(named);
                recorded.or_else(|| (0..names.len()).find(named))
            }
            Self::Nth(index) => Some(*index as usize).filter(|index| *index < names.len()),
        }
    }
}

impl fmt::Display for ScriptStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { action, .. } => formatter.write_str(action),
            Self::Nth(index) => write!(formatter, "action {index}"),
        }
    }
}

/// Steps to be taken again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Index of the initial state.
    pub root: u32,
    /// The steps.
    pub steps: Vec<ScriptStep>,
    /// Number of steps after which the rest repeats for ever.
    pub cycle_from: Option<usize>,
}

/// Why a script ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model has no such initial state.
    NoStart,
    /// The next action is not possible; these are.
    NotOffered(Vec<String>),
    /// The model panics in the next step.
    Panicked(String),
}

/// What came of taking a script's steps again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retraced {
    /// The way, as far as it led.
    pub story: Story,
    /// Why it ends before the script does.
    pub stop: Option<Stop>,
    /// What is wrong in the last state, if anything is: how, and by which property.
    pub fault: Option<(Kind, String)>,
}

/// Takes the steps of `script`. Where they lead to the end and no single state is at fault, `stalled` is asked about progress.
pub(super) fn retrace<M: Explorable>(
    model: &M,
    script: &Script,
    stalled: impl FnOnce(&Walk<M>) -> Option<(Kind, String)>,
) -> Retraced {
    let (walk, stop) = walk(model, script);
    let fault = || fault_at_end(model, &walk).or_else(|| stalled(&walk));
    let fault = if stop.is_none() { fault() } else { None };
    let ending = fault.as_ref().map_or_else(String::new, |(_, property)| format!("`{property}` is violated"));
    Retraced { story: Story::of(model, &walk, ending), stop, fault }
}

/// The states and actions along `script`, as far as it leads, and why it ends early.
pub(super) fn walk<M: Explorable>(model: &M, script: &Script) -> (Walk<M>, Option<Stop>) {
    let Some(start) = model.init_states().into_iter().nth(script.root as usize) else {
        return (Vec::new(), Some(Stop::NoStart));
    };
    let mut state = start.clone();
    let mut walk = vec![(None, start)];
    for wanted in &script.steps {
        match take(model, &state, wanted) {
            Ok((action, next)) => {
                state = next.clone();
                walk.push((Some(action), next));
            }
            Err(stop) => return (walk, Some(stop)),
        }
    }
    (walk, None)
}

fn take<M: Explorable>(
    model: &M,
    state: &M::State,
    wanted: &ScriptStep,
) -> Result<(M::Action, M::State), Stop> {
    let offered = actions(model, state);
    let names: Vec<String> = offered.iter().map(|action| model.name_of_action(action)).collect();
    let Some(action) = wanted.place(&names).and_then(|index| offered.into_iter().nth(index)) else {
        return Err(Stop::NotOffered(names));
    };
    match stepped(model, state, &action).map_err(Stop::Panicked)? {
        Some(next) => Ok((action, next)),
        None => Err(Stop::NotOffered(names)),
    }
}

/// The next state, or the message of a panic.
pub(super) fn stepped<M: Explorable>(
    model: &M,
    state: &M::State,
    action: &M::Action,
) -> Result<Option<M::State>, String> {
    catch_unwind(AssertUnwindSafe(|| model.next_state(state, action.clone())))
        .map_err(|panic| message_of(&*panic))
}

fn fault_at_end<M: Explorable>(model: &M, walk: &Walk<M>) -> Option<(Kind, String)> {
    walk.last().and_then(|(_, state)| fault_in(model, state))
}

/// What the search would say of a state alone.
pub(super) fn fault_in<M: Explorable>(model: &M, state: &M::State) -> Option<(Kind, String)> {
    let broken = model.properties().into_iter().find(|property| match property.expectation {
        Expectation::Always => !(property.condition)(model, state),
        Expectation::Eventually | Expectation::Sometimes => false,
    });
    if let Some(property) = broken {
        return Some((Kind::Safety, property.name.to_owned()));
    }
    let offered = actions(model, state);
    if offered.iter().any(|action| stepped(model, state, action).is_err()) {
        return Some((Kind::Assertion, ASSERTION.to_owned()));
    }
    let stuck = steps(model, state).is_empty() && !model.may_stop(state);
    stuck.then(|| (Kind::Stuck, model.stuck_property().to_owned()))
}

/// How progress fails at the end of `walk`: an obligation pending for ever on the cycle or in the last state, or a goal out of reach.
pub(super) fn stalled_at_end<M: Live>(
    model: &M,
    walk: &Walk<M>,
    cycle_from: Option<usize>,
) -> Option<(Kind, String)> {
    let (_, last) = walk.last()?;
    let cycle = cycle_from.and_then(|from| walk.get(from..)).filter(|cycle| cycle.len() > 1);
    let starved = match cycle {
        Some(cycle) => starved(model, cycle),
        None if steps(model, last).is_empty() => model.mark_state(last).pending,
        None => 0,
    };
    let owed = model.obligations().into_iter().enumerate().find(|(index, _)| starved & (1 << index) != 0);
    let trapped = || (goal_in_reach(model, last) == Some(false)).then(|| model.goal_property());
    let property = owed.map(|(_, owed)| owed.property).or_else(trapped)?;
    Some((Kind::Liveness, property.to_owned()))
}

/// The obligations that stay pending for ever on `cycle`, as bits; none if it does not return or is not fair.
fn starved<M: Live>(model: &M, cycle: &[(Option<M::Action>, M::State)]) -> u32 {
    let returns = cycle.first().map(|(_, state)| state) == cycle.last().map(|(_, state)| state);
    let states: Vec<StateMarks> = cycle.iter().map(|(_, state)| model.mark_state(state)).collect();
    let marks = cycle.windows(2).filter_map(|pair| match pair {
        [(_, from), (Some(action), to)] => Some(model.mark_step(from, action, to)),
        [..] => None,
    });
    let marks: Vec<StepMarks> = marks.collect();
    let always_enabled = states.iter().fold(u32::MAX, |all, state| all & state.enabled);
    let taken = marks.iter().fold(0, |all, step| all | step.taken);
    let pending = states.iter().fold(u32::MAX, |all, state| all & state.pending);
    let discharged = marks.iter().fold(0, |all, step| all | step.discharged);
    if returns && always_enabled & !taken == 0 { pending & !discharged } else { 0 }
}
