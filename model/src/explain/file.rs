//! A trace as a file: JSON with the initial state whole and, for each step, what happened and what changed. `docs/trace-format.md` says
//! what each field means.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::trace::Trace;
use crate::explore::{Lane, StepEvent};
use crate::report::{Change, Scene, Story};
use crate::runs::Kind;

const FORMAT: &str = "lockstep-trace";
const VERSION: u32 = 1;
/// Steps that a file may have: more than any counterexample that a person could read.
const MOST_STEPS: usize = 100_000;

/// Why a text is no trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// It says something impossible.
    #[error(
        "the trace is damaged at step {step}: {why}; write it again with `lockstep-check check RUN --trace FILE`"
    )]
    Damaged {
        /// Index of the step.
        step: usize,
        /// What is wrong.
        why: String,
    },
    /// It is JSON of another kind.
    #[error(
        "this is JSON, but no trace: `format` must be \"{FORMAT}\"; `lockstep-check check RUN --trace FILE` writes one"
    )]
    Foreign,
    /// It is no JSON, or some field is missing.
    #[error("this is no whole trace: {0}; write it again with `lockstep-check check RUN --trace FILE`")]
    Unreadable(#[from] serde_json::Error),
    /// A later or earlier checker wrote it.
    #[error(
        "the trace has version {0} and this checker reads version {VERSION}; use the checker that wrote it"
    )]
    Version(u32),
}

/// What tells a trace from other JSON.
#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: String,
    version: u32,
    run: String,
    params: String,
    fingerprints: Fingerprints,
    property: Property,
    ending: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    point_of_no_return: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loop_from: Option<usize>,
    start: Start,
    steps: Vec<Step>,
}

#[derive(Serialize, Deserialize)]
struct Fingerprints {
    spec: String,
    model: String,
}

#[derive(Serialize, Deserialize)]
struct Property {
    id: String,
    sentence: String,
    kind: Kind,
}

/// The initial state.
#[derive(Serialize, Deserialize)]
pub(super) struct Start {
    choice: u32,
    lanes: Vec<WrittenLane>,
}

#[derive(Serialize, Deserialize)]
struct WrittenLane {
    title: String,
    cells: Vec<(String, String)>,
}

/// A step, with what it changes.
#[derive(Serialize, Deserialize)]
pub(super) struct Step {
    index: usize,
    who: String,
    action: String,
    choice: u32,
    events: Vec<StepEvent>,
    changes: Vec<WrittenChange>,
}

#[derive(Serialize, Deserialize)]
struct WrittenChange {
    lane: usize,
    field: String,
    from: Option<String>,
    to: Option<String>,
}

impl Trace {
    /// The text of the file.
    ///
    /// # Errors
    /// None that its types allow; the signature is `serde_json`'s.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(&File::from(self))? + "\n")
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`TraceError`], if it is not one that [`Trace::to_json`] could have written.
    pub fn from_json(text: &str) -> Result<Self, TraceError> {
        let header: Header = serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => TraceError::Foreign,
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => TraceError::Unreadable(error),
        })?;
        match (header.format.as_deref(), header.version) {
            (Some(FORMAT), Some(VERSION)) => serde_json::from_str::<File>(text)?.read(),
            (Some(FORMAT), Some(version)) => Err(TraceError::Version(version)),
            (_, _) => Err(TraceError::Foreign),
        }
    }
}

impl From<&Trace> for File {
    fn from(trace: &Trace) -> Self {
        let story = &trace.story;
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            run: trace.run.clone(),
            params: trace.params.clone(),
            fingerprints: Fingerprints { spec: trace.spec.clone(), model: trace.model.clone() },
            property: Property {
                id: trace.property.clone(),
                sentence: trace.sentence.clone(),
                kind: trace.kind,
            },
            ending: story.ending.clone(),
            point_of_no_return: story.point_of_no_return,
            loop_from: story.cycle_from,
            start: Start::of(story),
            steps: steps(story),
        }
    }
}

impl Start {
    /// The initial state of `story`.
    pub(super) fn of(story: &Story) -> Self {
        let written = |lane: &Lane| WrittenLane { title: lane.title.clone(), cells: lane.cells.clone() };
        let start = story.scenes.first();
        Self {
            choice: start.map_or(0, |scene| scene.choice),
            lanes: start.map_or_else(Vec::new, |scene| scene.lanes.iter().map(written).collect()),
        }
    }
}

/// The steps of `story`.
pub(super) fn steps(story: &Story) -> Vec<Step> {
    (1..story.scenes.len()).map(|index| step(story, index)).collect()
}

fn step(story: &Story, index: usize) -> Step {
    let scene = &story.scenes[index];
    let lanes = story.changes(index).into_iter().enumerate();
    let changes = lanes.flat_map(|(lane, changes)| changes.into_iter().map(move |change| (lane, change)));
    let written = |(lane, Change { field, from, to })| WrittenChange { lane, field, from, to };
    Step {
        index,
        who: who(&scene.events, &scene.lanes),
        action: scene.action.clone().unwrap_or_default(),
        choice: scene.choice,
        events: scene.events.clone(),
        changes: changes.map(written).collect(),
    }
}

/// The title of the only lane that a step's events are in, or "all".
pub(super) fn who(events: &[StepEvent], titles: &[Lane]) -> String {
    let mut lanes = events.iter().map(|event| event.lane);
    let first = lanes.next().flatten();
    let only = first.filter(|first| lanes.all(|lane| lane == Some(*first)));
    only.and_then(|lane| titles.get(lane)).map_or_else(|| "all".to_owned(), |lane| lane.title.clone())
}

impl File {
    fn read(self) -> Result<Trace, TraceError> {
        let lanes = self.start.lanes.into_iter();
        let lanes: Vec<Lane> = lanes.map(|lane| Lane { title: lane.title, cells: lane.cells }).collect();
        let start = Scene { action: None, choice: self.start.choice, events: Vec::new(), lanes };
        let mut scenes = vec![start];
        check(self.steps.len() <= MOST_STEPS, MOST_STEPS, "there are more steps than any trace has")?;
        for step in self.steps {
            let before = scenes.last().map_or(&[][..], |scene| &scene.lanes);
            let scene = step.read(scenes.len(), before)?;
            scenes.push(scene);
        }
        let marks = [self.point_of_no_return, self.loop_from];
        let beyond = marks.into_iter().flatten().find(|mark| *mark >= scenes.len());
        check(beyond.is_none(), beyond.unwrap_or(0), "it is marked, and there is no such step")?;
        Ok(Trace {
            run: self.run,
            params: self.params,
            spec: self.fingerprints.spec,
            model: self.fingerprints.model,
            kind: self.property.kind,
            property: self.property.id,
            sentence: self.property.sentence,
            story: Story {
                scenes,
                point_of_no_return: self.point_of_no_return,
                cycle_from: self.loop_from,
                ending: self.ending,
            },
        })
    }
}

impl Step {
    fn read(self, index: usize, before: &[Lane]) -> Result<Scene, TraceError> {
        check(self.index == index, index, "the steps are not numbered from 1 without a gap")?;
        let known = |lane: usize| lane < before.len();
        let events_known = self.events.iter().filter_map(|event| event.lane).all(known);
        check(events_known, index, "an event is in a lane that there is not")?;
        let mut lanes = before.to_vec();
        for change in self.changes {
            let lane = lanes.get_mut(change.lane);
            let applied = lane.map(|lane| apply(lane, change));
            check(applied == Some(true), index, "a change does not fit to the state before")?;
        }
        Ok(Scene { action: Some(self.action), choice: self.choice, events: self.events, lanes })
    }
}

fn check(holds: bool, step: usize, why: &str) -> Result<(), TraceError> {
    if holds { Ok(()) } else { Err(TraceError::Damaged { step, why: why.to_owned() }) }
}

/// Applies a change to a lane, unless it speaks of another state.
fn apply(lane: &mut Lane, WrittenChange { field, from, to, .. }: WrittenChange) -> bool {
    let fits = lane.value(&field) == from.as_deref();
    let place = lane.cells.iter().position(|(name, _)| *name == field);
    match (place, to) {
        (Some(place), Some(to)) => lane.cells[place].1 = to,
        (Some(place), None) => {
            lane.cells.remove(place);
        }
        (None, Some(to)) => lane.cells.push((field, to)),
        (None, None) => return false,
    }
    fits
}
