//! A path through a run, as the page of `lockstep-check explore` gets it: the way in the shapes of a trace file, what is wrong on it, and
//! what can happen next. `docs/explore.md` says what each field means.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use super::file::{Start, Step, steps, who};
use crate::explore::StepEvent;
use crate::report::{Diverged, diverged};
use crate::runs::{Kind, Offer, Registry, Run, Script, ScriptStep, Stop, Visit};

/// Digits of a fingerprint by which a link names a build.
const DIGITS: usize = 12;

/// A path as indices: which initial state, then which action in each state. Written as numbers with dots between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Index of the initial state.
    pub root: u32,
    /// Index of the action taken in each state.
    pub actions: Vec<u32>,
}

/// Why a path does not lead anywhere.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WayError {
    /// The state that is asked about is not on the path.
    #[error("the path ends after step {steps}, and there is no state after step {at}; the link is damaged")]
    Beyond {
        /// Steps of the path.
        steps: usize,
        /// The step that is asked for.
        at: usize,
    },
    /// The text is no path.
    #[error(
        "`{0}` is no path: a path is written as numbers with dots between them, such as 0.2.1; the link is damaged"
    )]
    Malformed(String),
    /// The run has no such initial state.
    #[error("the run has no initial state {0}; the link is damaged, or of another build")]
    NoStart(u32),
    /// A step is not possible.
    #[error(
        "step {step} of the path takes action {choice}, and {why}; the link is damaged, or of another build"
    )]
    Step {
        /// Index of the step, from 1.
        step: usize,
        /// Index of the action.
        choice: u32,
        /// What is possible instead, or why nothing is.
        why: String,
    },
}

/// What is wrong in a state.
#[derive(Debug, Serialize)]
struct Wrong {
    kind: Kind,
    property: String,
    sentence: &'static str,
}

/// What is wrong in a state of the way.
#[derive(Debug, Serialize)]
struct WrongAt {
    step: usize,
    #[serde(flatten)]
    wrong: Wrong,
}

/// Something that can happen.
#[derive(Debug, Serialize)]
struct Offered {
    choice: u32,
    action: String,
    who: String,
    events: Vec<StepEvent>,
    fault: Option<Wrong>,
}

/// A path followed through a run.
#[derive(Serialize)]
pub struct Way {
    run: &'static str,
    params: String,
    build: String,
    path: String,
    at: usize,
    start: Start,
    steps: Vec<Step>,
    diverged: Vec<Diverged>,
    faults: Vec<WrongAt>,
    offers: Vec<Offered>,
    may_stop: bool,
}

/// The name of this build in links: the beginnings of the fingerprints of specification and model.
#[must_use]
pub fn build(registry: &Registry) -> String {
    let [spec, model] = [registry.spec_fingerprint.as_str(), crate::FINGERPRINT];
    let beginning = |fingerprint: &str| fingerprint.chars().take(DIGITS).collect::<String>();
    format!("{}-{}", beginning(spec), beginning(model))
}

impl Choices {
    /// The path with its first `steps` steps alone.
    #[must_use]
    pub fn first(&self, steps: usize) -> Self {
        Self { root: self.root, actions: self.actions.iter().take(steps).copied().collect() }
    }

    /// The steps, to be taken.
    #[must_use]
    pub fn script(&self) -> Script {
        let steps = self.actions.iter().map(|choice| ScriptStep::Nth(*choice)).collect();
        Script { root: self.root, steps, cycle_from: None }
    }
}

impl FromStr for Choices {
    type Err = WayError;

    fn from_str(text: &str) -> Result<Self, WayError> {
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([root, actions @ ..]) => Ok(Self { root: *root, actions: actions.to_vec() }),
            Ok([]) | Err(_) => Err(WayError::Malformed(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.root)?;
        self.actions.iter().try_for_each(|choice| write!(formatter, ".{choice}"))
    }
}

impl Way {
    /// Follows `path` through `run` and looks around after its first `at` steps.
    ///
    /// # Errors
    /// [`WayError`], if it does not lead to its end or `at` is beyond that.
    pub fn follow(run: &Run, registry: &Registry, path: &Choices, at: usize) -> Result<Self, WayError> {
        let steps = path.actions.len();
        if at > steps {
            return Err(WayError::Beyond { steps, at });
        }
        let visit = run.model.visit(&path.script(), at);
        match &visit.stop {
            Some(stop) => Err(stopped(path, visit.story.scenes.len(), stop)),
            None => Ok(Self::of(run, registry, (path, at), visit)),
        }
    }

    fn of(run: &Run, registry: &Registry, (path, at): (&Choices, usize), visit: Visit) -> Self {
        let wrong = |(kind, property): (Kind, String)| {
            let sentence = registry.sentence(&property);
            Wrong { kind, property, sentence }
        };
        let titles = visit.story.scenes.first().map_or(&[][..], |scene| &scene.lanes);
        let offered = |Offer { choice, action, events, fault }| {
            let who = who(&events, titles);
            Offered { choice, action, who, events, fault: fault.map(wrong) }
        };
        let faults = visit.faults.into_iter();
        Self {
            run: run.name,
            params: run.params.clone(),
            build: build(registry),
            path: path.to_string(),
            at,
            start: Start::of(&visit.story),
            steps: steps(&visit.story),
            diverged: diverged(&visit.story),
            faults: faults.map(|(step, kind, id)| WrongAt { step, wrong: wrong((kind, id)) }).collect(),
            offers: visit.offers.into_iter().map(offered).collect(),
            may_stop: visit.may_stop,
        }
    }
}

fn stopped(path: &Choices, step: usize, stop: &Stop) -> WayError {
    let choice = step.checked_sub(1).and_then(|index| path.actions.get(index)).copied().unwrap_or(path.root);
    let why = match stop {
        Stop::NoStart => return WayError::NoStart(path.root),
        Stop::NotOffered(offered) if offered.is_empty() => "nothing is possible there".to_owned(),
        Stop::NotOffered(offered) => {
            format!("possible there are only 0 to {}: {}", offered.len() - 1, offered.join("; "))
        }
        Stop::Panicked(message) => format!("the model panics in it: {message}"),
    };
    WayError::Step { step, choice, why }
}
