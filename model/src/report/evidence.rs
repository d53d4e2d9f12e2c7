//! The guard that diverged where no event names one: what lanes had seen differently when one of them entered what another did not.
//!
//! Only a fact reaches one lane alone, so a cell that no fact ever changed is agreed, derived, or the same in every state. Of the cells that
//! facts did change, those count that differ between lanes which go different ways.

use super::diverged::{Decision, Diverged};
use super::story::Story;
use crate::explore::{Collective, Happening, WAITS_IN};

/// Where a lane goes in the end, and when that was decided.
struct Way {
    lane: usize,
    /// What it is in; nothing if it enters nothing.
    into: Option<Collective>,
    /// Whether its turn is the end of the story, and enters nothing.
    passes: bool,
    /// The step in which it entered that, and the step of its own before, in which it may have made up its mind.
    decided: [Moment; 2],
}

/// A step, and the scene that shows what the lane knew in it.
#[derive(Clone, Copy)]
struct Moment {
    step: usize,
    scene: usize,
}

impl Way {
    fn is_with(&self, other: &Self) -> bool {
        (&self.into, self.passes) == (&other.into, other.passes)
    }
}

/// A cell and what it says of each lane.
type Said = (String, Vec<Decision>);

/// The cells by which lanes went different ways; none if all went the same.
pub(super) fn diverged_by_evidence(story: &Story) -> Vec<Diverged> {
    let ways = ways(story);
    let together = ways.windows(2).all(|pair| pair[0].is_with(&pair[1]));
    if together || (story.point_of_no_return.is_none() && !ends_unmet(story)) {
        return Vec::new();
    }
    let found = (0..2).map(|moment| differing(story, &ways, moment)).find(|said| !said.is_empty());
    let found = found.unwrap_or_default().into_iter();
    found.map(|(guard, decisions)| Diverged { guard, decisions }).collect()
}

/// The ways of the lanes that do not meet; of all that ever do something, if nothing mismatches.
fn ways(story: &Story) -> Vec<Way> {
    let lanes = || 0..story.titles().count();
    let unmet: Vec<Way> =
        lanes().filter_map(|lane| Some(way(story, lane, Some(mismatched(story, lane)?)))).collect();
    if !unmet.is_empty() {
        return unmet;
    }
    let acts = |lane: &usize| story.scenes.iter().any(|scene| scene.events_of(*lane).next().is_some());
    lanes().filter(acts).map(|lane| way(story, lane, open(story, lane))).collect()
}

fn way(story: &Story, lane: usize, into: Option<Collective>) -> Way {
    let last = story.scenes.len().saturating_sub(1);
    let of_lane = |step: usize, is: &dyn Fn(&Happening) -> bool| {
        story.scenes[step].events_of(lane).any(|event| is(&event.what))
    };
    let enters = |what: &Happening| into.is_some() && what.entry() == into.as_ref();
    let turns = |what: &Happening| *what == Happening::Turn;
    let passes = into.is_none() && of_lane(last, &turns) && !of_lane(last, &|what| what.entry().is_some());
    let entered = (0..story.scenes.len()).rev().find(|step| of_lane(*step, &enters));
    let end = entered.unwrap_or(if passes { last } else { story.scenes.len() });
    let before = (0..end).rev().find(|step| of_lane(*step, &moves)).unwrap_or(end);
    let moment = |step: usize| Moment { step: step.min(last), scene: step.saturating_sub(1) };
    Way { lane, into, passes, decided: [moment(end), moment(before)] }
}

/// Whether a lane goes on by itself in an event: it turns, or takes what came out of a collective.
fn moves(what: &Happening) -> bool {
    match what {
        Happening::Complete { .. } | Happening::Step { .. } | Happening::Turn => true,
        Happening::Begin
        | Happening::Decide { .. }
        | Happening::End
        | Happening::Enter { .. }
        | Happening::Fact { .. }
        | Happening::Mismatch { .. }
        | Happening::Retire { .. } => false,
    }
}

/// What a lane is in where the story ends because others are in something else.
fn mismatched(story: &Story, lane: usize) -> Option<Collective> {
    let events = story.scenes.last()?.events_of(lane);
    events.map(|event| &event.what).find_map(|what| match what {
        Happening::Mismatch { collective } => Some(collective.clone()),
        Happening::Begin
        | Happening::Complete { .. }
        | Happening::Decide { .. }
        | Happening::End
        | Happening::Enter { .. }
        | Happening::Fact { .. }
        | Happening::Retire { .. }
        | Happening::Step { .. }
        | Happening::Turn => None,
    })
}

/// Whether the story ends because lanes do not meet.
pub(super) fn ends_unmet(story: &Story) -> bool {
    (0..story.titles().count()).any(|lane| mismatched(story, lane).is_some())
}

/// What a lane has entered last of what is not over in the end.
fn open(story: &Story, lane: usize) -> Option<Collective> {
    let mut open: Vec<&Collective> = Vec::new();
    for event in story.scenes.iter().flat_map(|scene| scene.events_of(lane)) {
        match &event.what {
            Happening::Enter { collective } => open.push(collective),
            Happening::Complete { collective } | Happening::Retire { collective } => {
                let over = open.iter().position(|other| other.communicator == collective.communicator);
                if let Some(place) = over {
                    open.remove(place);
                }
            }
            Happening::End => open.clear(),
            Happening::Begin
            | Happening::Decide { .. }
            | Happening::Fact { .. }
            | Happening::Mismatch { .. }
            | Happening::Step { .. }
            | Happening::Turn => {}
        }
    }
    open.pop().cloned()
}

/// The cells of local evidence that differ between ways at a moment: if some tell the ways apart, only those; and of them, if the deciding
/// step itself writes some, only those.
fn differing(story: &Story, ways: &[Way], moment: usize) -> Vec<Said> {
    let said = |field: String| {
        let values = ways.iter().map(|way| {
            let Moment { step, scene } = way.decided[moment];
            let value = story.scenes[scene].lanes[way.lane].value(&field);
            let value = value.filter(|value| !value.is_empty()).unwrap_or("-").to_owned();
            Decision { lane: way.lane, step, value }
        });
        let values = values.collect();
        (field, values)
    };
    let differs = |(_, values): &Said| values.windows(2).any(|pair| pair[0].value != pair[1].value);
    let mut cells: Vec<Said> = evidence(story, ways).into_iter().map(said).filter(differs).collect();
    keep_if_any(&mut cells, |(_, values)| tells_apart(ways, values));
    keep_if_any(&mut cells, |(field, _)| {
        ways.iter().any(|way| writes(story, way.decided[moment].step, way.lane, field))
    });
    cells
}

/// Fields that a fact changed in one of the lanes, in the order in which they are drawn.
fn evidence(story: &Story, ways: &[Way]) -> Vec<String> {
    let Some(first) = ways.first() else { return Vec::new() };
    let sees = |step: usize, lane: usize| {
        story.scenes[step].events_of(lane).any(|event| matches!(event.what, Happening::Fact { .. }))
    };
    let steps = || (1..story.scenes.len()).flat_map(|step| ways.iter().map(move |way| (step, way.lane)));
    let is_evidence =
        |field: &str| steps().any(|(step, lane)| sees(step, lane) && writes(story, step, lane, field));
    let mut fields: Vec<String> = Vec::new();
    for (field, _) in story.scenes.iter().flat_map(|scene| &scene.lanes[first.lane].cells) {
        if field != WAITS_IN && !fields.contains(field) && is_evidence(field) {
            fields.push(field.clone());
        }
    }
    fields
}

/// Whether a step changes a cell.
fn writes(story: &Story, step: usize, lane: usize, field: &str) -> bool {
    let value = |step: usize| story.scenes[step].lanes[lane].value(field);
    step > 0 && value(step) != value(step - 1)
}

/// Whether lanes that go the same way say the same.
fn tells_apart(ways: &[Way], values: &[Decision]) -> bool {
    let each = || ways.iter().zip(values);
    each()
        .all(|(way, value)| each().all(|(other, theirs)| !way.is_with(other) || value.value == theirs.value))
}

/// Keeps the items that `is` says, unless there are none.
fn keep_if_any<T>(items: &mut Vec<T>, is: impl Fn(&T) -> bool) {
    if items.iter().any(&is) {
        items.retain(is);
    }
}
