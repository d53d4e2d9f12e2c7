//! A trace as trace events, for Chrome's tracing page and Perfetto: a track a lane, a slice for each wait, a millisecond a step.
//!
//! What is queued on a device overlaps with the lane's waits and with what is queued behind it. Readers take slices of one track as nested,
//! so such entries are asynchronous events, which get tracks of their own.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::explain::trace::Trace;
use crate::explore::{Happening, StepEvent};

/// Microseconds of a step.
const STEP: usize = 1_000;

/// Draws `trace`.
///
/// # Errors
/// `serde_json`'s.
pub(super) fn chrome(trace: &Trace) -> serde_json::Result<String> {
    let mut tracks = Tracks { events: Vec::new(), open: BTreeMap::new(), queued: 0 };
    tracks.name("process_name", 0, &trace.run);
    for (lane, title) in trace.titles().iter().enumerate() {
        tracks.name("thread_name", lane + 1, title);
    }
    for index in 1..trace.story.scenes.len() {
        tracks.step(trace, index);
    }
    tracks.close(trace);
    let document = json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "run": trace.run, "property": trace.property, "sentence": trace.sentence, "ending": trace.ending(),
        },
        "traceEvents": tracks.events,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// By lane and communicator: what is entered and not over, oldest first, with its start.
type Open = BTreeMap<(usize, String), Vec<(String, usize)>>;

struct Tracks {
    events: Vec<Value>,
    open: Open,
    /// Asynchronous events so far: each pair has an id of its own.
    queued: usize,
}

impl Tracks {
    fn name(&mut self, what: &str, track: usize, title: &str) {
        self.events.push(json!({
            "ph": "M", "name": what, "pid": 1, "tid": track, "args": { "name": title },
        }));
    }

    fn step(&mut self, trace: &Trace, index: usize) {
        let scene = &trace.story.scenes[index];
        let action = scene.action.as_deref().unwrap_or_default();
        let changes = trace.story.changes(index);
        for (order, event) in scene.events.iter().enumerate() {
            let at = index * STEP + order;
            self.event(at, event);
            if event.what.collective().is_none() {
                let changed = event.lane.and_then(|lane| changes.get(lane)).into_iter().flatten();
                let changed: Map<String, Value> =
                    changed.map(|change| (change.field.clone(), json!(change.to))).collect();
                let name = event.what.short().unwrap_or_else(|| action.to_owned());
                self.instant(
                    at,
                    event.lane,
                    &name,
                    &json!({ "step": index, "action": action, "changes": changed }),
                );
            }
        }
        if trace.story.point_of_no_return == Some(index) {
            self.instant(index * STEP + STEP / 2, None, "point of no return", &json!({ "step": index }));
        }
    }

    fn event(&mut self, at: usize, event: &StepEvent) {
        let Some(lane) = event.lane else { return };
        if event.what == Happening::End {
            return self.end(lane, at);
        }
        let Some(collective) = event.what.collective() else { return };
        let open = self.open.entry((lane, collective.communicator.clone())).or_default();
        match &event.what {
            Happening::Enter { .. } => open.push((collective.to_string(), at)),
            Happening::Complete { .. } | Happening::Retire { .. } if !open.is_empty() => {
                let (name, from) = open.remove(0);
                self.entry((lane, &collective.communicator), &name, (from, at), "complete");
            }
            Happening::Mismatch { .. } => {
                self.instant(at, Some(lane), &format!("{collective:#} does not match"), &json!({}));
            }
            Happening::Begin
            | Happening::Complete { .. }
            | Happening::Decide { .. }
            | Happening::End
            | Happening::Fact { .. }
            | Happening::Retire { .. }
            | Happening::Step { .. }
            | Happening::Turn => {}
        }
    }

    /// A lane ends, and with it whatever it has entered.
    fn end(&mut self, lane: usize, at: usize) {
        let (ended, open) = std::mem::take(&mut self.open).into_iter().partition(|((of, _), _)| *of == lane);
        self.open = open;
        let ended: Open = ended;
        for ((lane, communicator), entries) in ended {
            for (name, from) in entries {
                self.entry((lane, &communicator), &name, (from, at), "end");
            }
        }
    }

    /// An entry from its beginning to its end.
    fn entry(&mut self, (lane, communicator): (usize, &str), name: &str, times: (usize, usize), ends: &str) {
        if communicator == "device" {
            self.queue(lane, name, times, ends);
        } else {
            self.slice(lane, name, times, ends);
        }
    }

    fn queue(&mut self, lane: usize, name: &str, (from, to): (usize, usize), ends: &str) {
        self.queued += 1;
        for (phase, at) in [("b", from), ("e", to)] {
            self.events.push(json!({
                "ph": phase, "name": name, "cat": "device", "id": self.queued, "pid": 1, "tid": lane + 1,
                "ts": at, "args": { "ends": ends },
            }));
        }
    }

    fn slice(&mut self, lane: usize, name: &str, (from, to): (usize, usize), ends: &str) {
        self.events.push(json!({
            "ph": "X", "name": name, "cat": "collective", "pid": 1, "tid": lane + 1,
            "ts": from, "dur": to - from, "args": { "ends": ends },
        }));
    }

    fn instant(&mut self, at: usize, lane: Option<usize>, name: &str, args: &Value) {
        let scope = if lane.is_some() { "t" } else { "g" };
        self.events.push(json!({
            "ph": "i", "name": name, "cat": "step", "pid": 1, "tid": lane.map_or(0, |lane| lane + 1),
            "ts": at, "s": scope, "args": args,
        }));
    }

    /// What never completes lasts to the end, where the violation is.
    fn close(&mut self, trace: &Trace) {
        let end = trace.story.scenes.len() * STEP;
        for ((lane, communicator), open) in std::mem::take(&mut self.open) {
            for (name, from) in open {
                self.entry((lane, &communicator), &name, (from, end), "never");
            }
        }
        let (violated, sentence) = (format!("{} violated", trace.property), &trace.sentence);
        self.instant(end, None, &violated, &json!({ "sentence": sentence, "ending": trace.ending() }));
    }
}
