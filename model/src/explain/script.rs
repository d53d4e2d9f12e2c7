//! A path through a run's model as a Rust test: `explain RUN --format test` writes one, and a person can write another.
//!
//! ```no_run
//! # fn main() -> Result<(), lockstep_model::explain::PathError> {
//! lockstep_model::explain::path("conventional-local-admission-normal")?
//!     .step("rank 0 sees Arrived")
//!     .step("rank 0 turns")
//!     .holds()
//! # }
//! ```
//! Where the ranks are those that the runtime executes, its loop can be led along the same path: `.led_by(lockstep_runtime::rank::rehearse)?`.

use std::fmt;

use thiserror::Error;

use crate::runs::{Registry, Retraced, Run, Script, ScriptStep, Stop, registry};
use crate::traces::whose;

/// Why a path is not what a test says.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PathError {
    /// A cell has another value, or is not there.
    #[error("in the end `{field}` of {lane} is {happened}, not `{expected}`")]
    Cell {
        /// Title of the lane.
        lane: String,
        /// The field.
        field: String,
        /// What the test says.
        expected: String,
        /// What it is.
        happened: String,
    },
    /// The path ends in another violation, or in none.
    #[error("the path must end in {expected}, and ends in {happened}")]
    Ending {
        /// What the test says.
        expected: String,
        /// What it is.
        happened: String,
    },
    /// A rank of the program goes another way.
    #[error("{whose} does not go this path: {why}")]
    Departed {
        /// The rank, with its group and epoch.
        whose: String,
        /// Where and how it leaves.
        why: String,
    },
    /// The ranks of the run are not those of the program.
    #[error("the ranks of `{0}` are not those that the runtime executes")]
    Foreign(String),
    /// A step is not possible.
    #[error("step {step}, `{action}`, is not possible: {why}")]
    Step {
        /// Index of the step, from 1.
        step: usize,
        /// Its name.
        action: String,
        /// What is possible instead, or why nothing is.
        why: String,
    },
    /// No run has this name.
    #[error("no run is called `{0}`; `lockstep-check list` shows them all")]
    UnknownRun(String),
}

/// A path through the model of a run, from its first initial state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    run: String,
    script: Script,
    cells: Vec<[String; 3]>,
}

/// The path through the model of `run` that has no steps yet.
///
/// # Errors
/// [`PathError::UnknownRun`].
pub fn path(run: &str) -> Result<Path, PathError> {
    run_of(&registry(), run)?;
    Ok(Path { run: run.to_owned(), script: Script::default(), cells: Vec::new() })
}

impl Path {
    /// The path with one more step, by the name that reports give it.
    #[must_use]
    pub fn step(mut self, action: &str) -> Self {
        self.script.steps.push(ScriptStep::Named { action: action.to_owned(), choice: None });
        self
    }

    /// The path whose steps after the first `steps` repeat for ever.
    #[must_use]
    pub fn repeating_from(mut self, steps: usize) -> Self {
        self.script.cycle_from = Some(steps);
        self
    }

    /// The path in whose last state a cell of a lane has a value.
    #[must_use]
    pub fn ending_with(mut self, lane: &str, field: &str, value: &str) -> Self {
        self.cells.push([lane, field, value].map(str::to_owned));
        self
    }

    /// The path, when the program's own ranks have gone it: `lead` is given the trace that each of them writes on it.
    ///
    /// # Errors
    /// The first [`PathError`].
    pub fn led_by<T, E: fmt::Display>(self, lead: impl Fn(&str) -> Result<T, E>) -> Result<Self, PathError> {
        let (registry, retraced) = self.retraced()?;
        let choices: Vec<u32> = retraced.story.scenes.iter().skip(1).map(|scene| scene.choice).collect();
        let traces = run_of(&registry, &self.run)?.model.traces(&choices);
        if traces.is_empty() {
            return Err(PathError::Foreign(self.run));
        }
        for trace in &traces {
            lead(trace).map_err(|why| PathError::Departed { whose: whose(trace), why: why.to_string() })?;
        }
        Ok(self)
    }

    /// Takes the steps and checks that `property` is violated in the end.
    ///
    /// # Errors
    /// The first [`PathError`].
    pub fn violates(self, property: &str) -> Result<(), PathError> {
        self.take(Some(property))
    }

    /// Takes the steps and checks that nothing is wrong in the end.
    ///
    /// # Errors
    /// The first [`PathError`].
    pub fn holds(self) -> Result<(), PathError> {
        self.take(None)
    }

    fn retraced(&self) -> Result<(Registry, Retraced), PathError> {
        let registry = registry();
        let retraced = run_of(&registry, &self.run)?.model.retrace(&self.script);
        self.stopped(&retraced)?;
        Ok((registry, retraced))
    }

    fn take(self, expected: Option<&str>) -> Result<(), PathError> {
        let (_, retraced) = self.retraced()?;
        self.cells.iter().try_for_each(|cell| ends_with(&retraced, cell))?;
        let happened = retraced.fault.as_ref().map(|(_, property)| property.as_str());
        if happened == expected {
            return Ok(());
        }
        let told = |property: Option<&str>| {
            property
                .map_or_else(|| "no violation".to_owned(), |property| format!("a violation of `{property}`"))
        };
        Err(PathError::Ending { expected: told(expected), happened: told(happened) })
    }

    fn stopped(&self, retraced: &Retraced) -> Result<(), PathError> {
        let Some(stop) = &retraced.stop else { return Ok(()) };
        let step = retraced.story.scenes.len();
        let wanted = step.checked_sub(1).and_then(|index| self.script.steps.get(index));
        let action = wanted.map_or_else(String::new, ToString::to_string);
        let why = match stop {
            Stop::NoStart => "the model has no initial state".to_owned(),
            Stop::NotOffered(offered) => format!("these are: {}", offered.join("; ")),
            Stop::Panicked(message) => format!("the model panics: {message}"),
        };
        Err(PathError::Step { step, action, why })
    }
}

fn run_of<'a>(registry: &'a Registry, name: &str) -> Result<&'a Run, PathError> {
    let run = registry.runs.iter().find(|run| run.name == name);
    run.ok_or_else(|| PathError::UnknownRun(name.to_owned()))
}

fn ends_with(retraced: &Retraced, [lane, field, expected]: &[String; 3]) -> Result<(), PathError> {
    let scene = retraced.story.scenes.last();
    let found = scene.and_then(|scene| scene.lanes.iter().find(|other| other.title == *lane));
    let happened = found.and_then(|lane| lane.value(field));
    if happened == Some(expected) {
        return Ok(());
    }
    let happened = happened.map_or_else(|| "not there".to_owned(), |value| format!("`{value}`"));
    let [lane, field, expected] = [lane, field, expected].map(Clone::clone);
    Err(PathError::Cell { lane, field, expected, happened })
}
