//! A trace as a log with vector clocks, as ShiViz reads it with its default expression: host and clock, then the event.
//!
//! A collective joins clocks: where it completes, a lane knows of every lane's entry into it.

use std::collections::BTreeMap;

use serde_json::json;

use crate::explain::trace::Trace;
use crate::explore::{Happening, StepEvent};

/// A vector clock, by host.
type Clock = BTreeMap<String, u64>;

/// Writes `trace`.
///
/// # Errors
/// `serde_json`'s.
pub(super) fn shiviz(trace: &Trace) -> serde_json::Result<String> {
    let hosts: Vec<String> = trace.titles().iter().map(|title| host(title)).collect();
    let mut log =
        Log { clocks: vec![Clock::new(); hosts.len()], hosts, entries: BTreeMap::new(), text: String::new() };
    for (index, scene) in trace.story.scenes.iter().enumerate().skip(1) {
        let action = scene.action.as_deref().unwrap_or_default();
        for event in &scene.events {
            let what = event.what.short().unwrap_or_else(|| action.to_owned());
            log.event(event, &format!("{index}. {what}"))?;
        }
    }
    for lane in 0..log.hosts.len() {
        log.write(lane, &format!("{} violated {}", trace.property, trace.ending()))?;
    }
    Ok(log.text)
}

struct Log {
    hosts: Vec<String>,
    clocks: Vec<Clock>,
    /// By communicator and lane: the clocks at each entry, and how many of them are over.
    entries: BTreeMap<(String, usize), (Vec<Clock>, usize)>,
    text: String,
}

impl Log {
    fn event(&mut self, event: &StepEvent, text: &str) -> serde_json::Result<()> {
        let lanes = event.lane.map_or(0..self.hosts.len(), |lane| lane..lane + 1);
        for lane in lanes {
            if let Happening::Complete { collective } | Happening::Retire { collective } = &event.what {
                self.join(lane, &collective.communicator);
            }
            if event.what == Happening::Begin {
                self.entries.retain(|(_, of), _| *of != lane);
            }
            self.write(lane, text)?;
            if let Happening::Enter { collective } = &event.what {
                let clock = self.clocks[lane].clone();
                self.entries.entry((collective.communicator.clone(), lane)).or_default().0.push(clock);
            }
        }
        Ok(())
    }

    /// The lane learns of all entries into the oldest collective that is not over for it.
    fn join(&mut self, lane: usize, communicator: &str) {
        let key = |lane: usize| (communicator.to_owned(), lane);
        let over = self.entries.get(&key(lane)).map_or(0, |(_, over)| *over);
        let met = (0..self.hosts.len()).filter_map(|other| self.entries.get(&key(other))?.0.get(over));
        for (host, count) in met.flatten() {
            let known = self.clocks[lane].entry(host.clone()).or_default();
            *known = (*known).max(*count);
        }
        if let Some((_, over)) = self.entries.get_mut(&key(lane)) {
            *over += 1;
        }
    }

    fn write(&mut self, lane: usize, text: &str) -> serde_json::Result<()> {
        *self.clocks[lane].entry(self.hosts[lane].clone()).or_default() += 1;
        let text: String =
            text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let clock = serde_json::to_string(&json!(self.clocks[lane]))?;
        self.text += &format!("{} {clock}\n{text}\n", self.hosts[lane]);
        Ok(())
    }
}

/// A title without spaces, since a host is one word.
fn host(title: &str) -> String {
    title.split_whitespace().collect::<Vec<_>>().join("-")
}
