//! A counterexample as a certificate keeps it: each step with what it changes.

use serde::{Deserialize, Serialize};

use crate::explore::Lane;
use crate::report::{Scene, Story};

/// A way from an initial state to a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counterexample {
    /// The initial state, and then one entry a step.
    pub steps: Vec<Step>,
    /// Index of the first entry from which no benign steps lead to a goal, if known.
    pub point_of_no_return: Option<usize>,
    /// Index of the entry to which the last one returns, if the fault is a cycle.
    pub cycle_from: Option<usize>,
    /// What is wrong in the end, as a clause.
    pub ending: String,
}

/// One step of a counterexample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Name of the action; `None` for the initial state.
    pub action: Option<String>,
    /// What differs from the entry before, as "lane: field old → new"; everything for the initial state.
    pub changes: Vec<String>,
}

impl From<&Story> for Counterexample {
    fn from(story: &Story) -> Self {
        let before = std::iter::once(None).chain(story.scenes.iter().map(Some));
        Self {
            steps: before.zip(&story.scenes).map(|(before, scene)| Step::between(before, scene)).collect(),
            point_of_no_return: story.point_of_no_return,
            cycle_from: story.cycle_from,
            ending: story.ending.clone(),
        }
    }
}

impl Step {
    fn between(before: Option<&Scene>, scene: &Scene) -> Self {
        let old = |index: usize| before.and_then(|before| before.lanes.get(index));
        let changes = scene.lanes.iter().enumerate().flat_map(|(index, lane)| changes(old(index), lane));
        Self { action: scene.action.clone(), changes: changes.collect() }
    }
}

fn changes(before: Option<&Lane>, lane: &Lane) -> Vec<String> {
    let title = &lane.title;
    let change = |(field, value): &(String, String)| match before.map(|before| value_of(before, field)) {
        Some(Some(old)) => (old != value).then(|| format!("{title}: {field} {old} → {value}")),
        Some(None) | None => Some(format!("{title}: {field} {value}")),
    };
    let gone = |(field, _): &&(String, String)| value_of(lane, field).is_none();
    let gone = before.into_iter().flat_map(|before| &before.cells).filter(gone);
    let gone: Vec<String> = gone.map(|(field, _)| format!("{title}: {field} gone")).collect();
    lane.cells.iter().filter_map(change).chain(gone).collect()
}

fn value_of<'a>(lane: &'a Lane, field: &str) -> Option<&'a String> {
    lane.cells.iter().find(|(name, _)| name == field).map(|(_, value)| value)
}
