//! Where two lanes decide differently: the guard that diverged, and what it said on each.

use std::collections::BTreeSet;

use serde::Serialize;

use super::evidence::{diverged_by_evidence, ends_unmet};
use super::story::{Scene, Story};
use crate::explore::{Collective, WAITS_IN};

/// What a guard said on one lane, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Index of the lane.
    pub lane: usize,
    /// Index of the step.
    pub step: usize,
    /// What the guard said.
    pub value: String,
}

/// A guard by which lanes decided differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diverged {
    /// The guard.
    pub guard: String,
    /// The decisions that differ, by lane.
    pub decisions: Vec<Decision>,
}

/// The guards of `story` that diverged: those that its events name, or else the cells of local evidence by which lanes went different ways.
#[must_use]
pub fn diverged(story: &Story) -> Vec<Diverged> {
    let told = diverged_by_events(story);
    if told.is_empty() { diverged_by_evidence(story) } else { told }
}

/// In what lanes differ where no guard tells it, in words: all that enter anything have entered the same so far, and in the end some of what
/// they say differs, or none of it. None where a guard diverged, or lanes went different ways.
#[must_use]
pub fn together(story: &Story) -> Option<String> {
    let entered = |lane: usize| -> Vec<&Collective> {
        let events = story.scenes.iter().flat_map(|scene| scene.events_of(lane));
        events.filter_map(|event| event.what.entry()).collect()
    };
    let lanes: Vec<usize> = (0..story.titles().count()).filter(|lane| !entered(*lane).is_empty()).collect();
    let same = lanes.len() > 1 && lanes.iter().all(|lane| entered(*lane) == entered(lanes[0]));
    if !same || ends_unmet(story) || !diverged(story).is_empty() {
        return None;
    }
    let differences = differences(story, &lanes);
    Some(match differences.as_slice() {
        [] => "all have entered the same collectives, and nothing differs between them in the end".to_owned(),
        some => format!(
            "all have entered the same collectives; what differs between them in the end: {}",
            some.join("; ")
        ),
    })
}

/// The cells that were changed and in which some lanes differ in the end, with what each says.
fn differences(story: &Story, lanes: &[usize]) -> Vec<String> {
    let [Some(first), Some(last)] = [story.scenes.first(), story.scenes.last()] else { return Vec::new() };
    let cells = lanes.iter().flat_map(|lane| &last.lanes[*lane].cells).map(|(field, _)| field.as_str());
    let fields: BTreeSet<&str> = cells.filter(|field| *field != WAITS_IN).collect();
    let value = |scene: &'_ Scene, field: &str, lane: &usize| {
        scene.lanes[*lane].value(field).unwrap_or("-").to_owned()
    };
    let counts = |field: &&str| {
        let changed = lanes.iter().any(|lane| value(first, field, lane) != value(last, field, lane));
        changed && lanes.iter().any(|lane| value(last, field, lane) != value(last, field, &lanes[0]))
    };
    let told = |field: &str| {
        let said =
            lanes.iter().map(|lane| format!("{}: {}", last.lanes[*lane].title, value(last, field, lane)));
        format!("{field} ({})", said.collect::<Vec<_>>().join(", "))
    };
    fields.into_iter().filter(counts).map(told).collect()
}

/// The guards whose decisions differ, the latest such decisions of each. Compared is the k-th decision of each lane with the k-th of every
/// other: the lanes are to take the same decisions in the same order.
fn diverged_by_events(story: &Story) -> Vec<Diverged> {
    let decided = decisions(story);
    let guards: BTreeSet<&str> = decided.iter().map(|(guard, _)| *guard).collect();
    guards
        .into_iter()
        .filter_map(|guard| latest_difference(guard, &decided, story.titles().count()))
        .collect()
}

fn decisions(story: &Story) -> Vec<(&str, Decision)> {
    let of_scene = |(step, scene)| {
        let scene: &Scene = scene;
        scene.events.iter().filter_map(move |event| {
            let (guard, value) = event.what.decision()?;
            Some((guard, Decision { lane: event.lane?, step, value: value.to_owned() }))
        })
    };
    story.scenes.iter().enumerate().flat_map(of_scene).collect()
}

fn latest_difference(guard: &str, decided: &[(&str, Decision)], lanes: usize) -> Option<Diverged> {
    let of_lane = |lane: usize| -> Vec<&Decision> {
        let mine = decided.iter().filter(|(name, decision)| *name == guard && decision.lane == lane);
        mine.map(|(_, decision)| decision).collect()
    };
    let by_lane: Vec<Vec<&Decision>> = (0..lanes).map(of_lane).collect();
    let most = by_lane.iter().map(Vec::len).max().unwrap_or(0);
    let turn = |turn: usize| -> Vec<&Decision> {
        by_lane.iter().filter_map(|decisions| decisions.get(turn).copied()).collect()
    };
    let differs =
        |decisions: &Vec<&Decision>| decisions.windows(2).any(|pair| pair[0].value != pair[1].value);
    let decisions = (0..most).rev().map(turn).find(differs)?;
    Some(Diverged { guard: guard.to_owned(), decisions: decisions.into_iter().cloned().collect() })
}
