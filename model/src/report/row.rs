//! What one step shows in each column.

use super::band::Band;
use super::diverged::Diverged;
use super::leaves::leaves;
use super::story::{Change, Scene, Story};
use super::words::{ACTION, FAINT, FAULT, GOOD, PLAIN, STRONG, TURN, Words};
use crate::explore::{Happening, StepEvent, WAITS_IN};

/// A step: its action, each lane's cells, and the band across them.
pub(super) struct Row {
    pub(super) action: Words,
    pub(super) lanes: Vec<Vec<Words>>,
    pub(super) bands: Vec<Option<Band>>,
}

impl Row {
    /// The `index`-th step of `story`; `guards` are those whose decisions are shown.
    pub(super) fn new(story: &Story, index: usize, guards: &[Diverged], full: bool) -> Self {
        let scene = &story.scenes[index];
        let changes = story.changes(index);
        let entries_known = story
            .scenes
            .iter()
            .flat_map(|scene| &scene.events)
            .any(|event| event.what.collective().is_some());
        let lane = |number: usize| {
            let shown = guards.iter().filter_map(|guard| decision(guard, index, number));
            let entered = scene.events.iter().filter(|event| event.lane == Some(number)).filter_map(entry);
            let cells = match full {
                true => whole(scene, number, &changes),
                false if scene.ends(number) => Vec::new(),
                false => changed(&changes[number], entries_known),
            };
            shown.chain(entered).chain(cells).collect()
        };
        Self {
            action: Words::new(ACTION, scene.action.as_deref().unwrap_or("(start)")),
            lanes: (0..scene.lanes.len()).map(lane).collect(),
            bands: Band::of(scene),
        }
    }
}

/// What a guard that diverged said on a lane in a step.
fn decision(guard: &Diverged, step: usize, lane: usize) -> Option<Words> {
    let here = guard.decisions.iter().find(|decision| (decision.step, decision.lane) == (step, lane))?;
    Some(Words::new(TURN, "◆").and(FAINT, &format!("{}?", guard.guard)).and(TURN, &here.value))
}

/// An entry or a retirement, or where a lane begins or ends.
fn entry(event: &StepEvent) -> Option<Words> {
    match &event.what {
        Happening::Begin => Some(Words::new(GOOD, "○ begins")),
        Happening::End => Some(Words::new(FAULT, "✕ ends here")),
        Happening::Enter { collective } => Some(Words::new(ACTION, "▶").and(STRONG, &collective.to_string())),
        Happening::Retire { collective } => {
            Some(Words::new(ACTION, "◀").and(STRONG, &collective.to_string()).and(FAINT, "retires"))
        }
        Happening::Complete { .. }
        | Happening::Decide { .. }
        | Happening::Fact { .. }
        | Happening::Mismatch { .. }
        | Happening::Step { .. }
        | Happening::Turn => None,
    }
}

/// The changes of a lane. What it waits in shows in its entries, where those are known.
fn changed(changes: &[Change], entries_known: bool) -> Vec<Words> {
    let shown = |change: &&Change| !(entries_known && change.field == WAITS_IN);
    changes.iter().filter(shown).flat_map(leaves).map(|change| words_of(&change)).collect()
}

fn words_of(change: &Change) -> Words {
    let field = Words::new(FAINT, &change.field);
    match (&change.from, &change.to) {
        (Some(from), Some(to)) => field.and(FAINT, from).and(FAINT, "→").and(STRONG, to),
        (None, Some(to)) => field.and(PLAIN, to),
        (_, None) => field.and(STRONG, "gone"),
    }
}

/// Every cell of a lane, those that changed in bold.
fn whole(scene: &Scene, number: usize, changes: &[Vec<Change>]) -> Vec<Words> {
    let is_new =
        |field: &str| changes[number].iter().any(|change| change.field == field && change.from.is_some());
    let style = |field: &str| if is_new(field) { STRONG } else { PLAIN };
    let cell = |(field, value): &(String, String)| Words::new(FAINT, field).and(style(field), value);
    scene.lanes[number].cells.iter().map(cell).collect()
}
