//! A recorded trace taken again on the model of this build: the same violation, or where it diverges.

use std::fmt;

use super::trace::Trace;
use crate::explore::Lane;
use crate::report::Scene;
use crate::runs::{Exit, Failure, Registry, Retraced, Stop};

/// What a replay found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A step has another outcome than was recorded, or is not possible any more.
    Diverges {
        /// Index of the step; 0 is the initial state.
        step: usize,
        /// What was recorded.
        expected: String,
        /// What happened.
        happened: String,
    },
    /// Every step is as recorded, and in the end another property is violated, or none.
    Elsewhere(Option<String>),
    /// Every step is as recorded, and the end is the same violation.
    Same,
}

/// A finding with what is odd about the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// What was found.
    pub finding: Finding,
    /// Fingerprints that differ, one sentence each.
    pub warnings: Vec<String>,
}

impl Replay {
    /// The exit code that the finding asks for.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self.finding {
            Finding::Same => Exit::Ok,
            Finding::Diverges { .. } => Exit::Moved,
            Finding::Elsewhere(_) => Exit::NotFound,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diverges { step: 0, expected, happened } => {
                write!(formatter, "diverges at the start: expected {expected}; but {happened}")
            }
            Self::Diverges { step, expected, happened } => {
                write!(formatter, "diverges at step {step}: expected {expected}; but {happened}")
            }
            Self::Elsewhere(None) => {
                formatter.write_str("every step is as recorded, but no property is violated in the end")
            }
            Self::Elsewhere(Some(property)) => {
                write!(
                    formatter,
                    "every step is as recorded, but it is `{property}` that is violated in the end"
                )
            }
            Self::Same => formatter.write_str("the same violation, step by step"),
        }
    }
}

/// Takes the steps of `trace` again on the run of its name.
///
/// # Errors
/// A usage [`Failure`] if this build has no such run.
pub fn replay(trace: &Trace, registry: &Registry) -> Result<Replay, Failure> {
    let unknown = |_| {
        let text = format!(
            "the trace is of the run `{}`, which this program does not have: take it again with the one that wrote it (a protocol of your own does so with --replay FILE)",
            trace.run
        );
        Failure::new(Exit::Usage, text)
    };
    let runs = registry.named(std::slice::from_ref(&trace.run)).map_err(unknown)?;
    let retraced = runs.first().map(|run| run.model.retrace(&trace.script()));
    let finding = retraced.map_or(Finding::Elsewhere(None), |retraced| finding(trace, retraced));
    Ok(Replay { finding, warnings: warnings(trace, registry) })
}

fn warnings(trace: &Trace, registry: &Registry) -> Vec<String> {
    let pairs = [
        ("specification", &trace.spec, registry.spec_fingerprint.as_str()),
        ("model", &trace.model, crate::FINGERPRINT),
    ];
    let differing = pairs.into_iter().filter(|(_, recorded, now)| recorded != now);
    let told = differing.map(|(what, recorded, now)| {
        format!("the trace is of another {what}: its fingerprint is {recorded}, this build's is {now}")
    });
    told.collect()
}

fn finding(trace: &Trace, retraced: Retraced) -> Finding {
    let mut pairs = trace.story.scenes.iter().zip(&retraced.story.scenes).enumerate();
    if let Some(found) = pairs.find_map(|(step, (recorded, taken))| difference(step, recorded, taken)) {
        return found;
    }
    if let Some(stop) = retraced.stop {
        return stopped(trace, retraced.story.scenes.len(), stop);
    }
    match retraced.fault {
        Some((kind, property)) if (kind, &property) == (trace.kind, &trace.property) => Finding::Same,
        other => Finding::Elsewhere(other.map(|(_, property)| property)),
    }
}

fn stopped(trace: &Trace, step: usize, stop: Stop) -> Finding {
    let action = trace.story.scenes.get(step).and_then(|scene| scene.action.as_deref());
    let expected = action.map_or_else(|| "an initial state".to_owned(), |action| format!("`{action}`"));
    let happened = match stop {
        Stop::NoStart => "this build's model has no such initial state".to_owned(),
        Stop::NotOffered(offered) if offered.is_empty() => "nothing is possible here".to_owned(),
        Stop::NotOffered(offered) => format!("possible are `{}`", offered.join("`, `")),
        Stop::Panicked(message) => format!("the model panics: {message}"),
    };
    Finding::Diverges { step, expected, happened }
}

/// The first cell in which two scenes differ, whatever the order of their cells.
fn difference(step: usize, recorded: &Scene, taken: &Scene) -> Option<Finding> {
    if recorded.lanes.len() != taken.lanes.len() {
        let count = |scene: &Scene| format!("{} lanes", scene.lanes.len());
        let (expected, happened) = (count(recorded), format!("there are {}", count(taken)));
        return Some(Finding::Diverges { step, expected, happened });
    }
    recorded.lanes.iter().zip(&taken.lanes).find_map(|(recorded, taken)| {
        let fields = recorded.cells.iter().chain(&taken.cells).map(|(field, _)| field);
        let differs = |field: &&String| recorded.value(field) != taken.value(field);
        let field = { fields }.find(differs)?;
        let said =
            |lane: &Lane| lane.value(field).map_or_else(|| "absent".to_owned(), |value| format!("`{value}`"));
        let expected = format!("`{field}` of {} to be {}", recorded.title, said(recorded));
        Some(Finding::Diverges { step, expected, happened: format!("it is {}", said(taken)) })
    })
}
