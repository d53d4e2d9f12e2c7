//! A trace as a Mermaid sequence diagram: ranks call their communicators, which answer when a collective completes.

use std::fmt::Write;

use crate::explain::trace::Trace;
use crate::explore::{Happening, StepEvent};
use crate::report::{Scene, diverged, together};

/// Long names of actions are broken into lines; without it they run over the edges of their notes.
const WRAPS: &str = "%%{init: {\"sequence\": {\"wrap\": true, \"width\": 180}}}%%";

/// Draws `trace`.
pub(super) fn mermaid(trace: &Trace) -> String {
    let mut diagram = Diagram { trace, text: format!("{WRAPS}\nsequenceDiagram\n"), waiting: Vec::new() };
    diagram.participants();
    for index in 1..trace.story.scenes.len() {
        diagram.step(index);
    }
    diagram.ending();
    diagram.text
}

struct Diagram<'a> {
    trace: &'a Trace,
    text: String,
    /// Lanes whose waiting is drawn.
    waiting: Vec<usize>,
}

impl Diagram<'_> {
    fn line(&mut self, line: &str) {
        self.text += &format!("    {line}\n");
    }

    fn participants(&mut self) {
        self.line(&format!("title {} violates {}", safe(&self.trace.run), safe(&self.trace.property)));
        for (index, title) in self.trace.titles().iter().enumerate() {
            self.line(&format!("participant L{index} as {}", safe(title)));
        }
        for (index, communicator) in communicators(self.trace).iter().enumerate() {
            self.line(&format!("participant C{index} as {}", safe(communicator)));
        }
    }

    fn step(&mut self, index: usize) {
        let story = &self.trace.story;
        let scene = &story.scenes[index];
        let named = scene.events.iter().find(|event| told_by_note(event, scene));
        let lane = named.and_then(|event| event.lane);
        let action = scene.action.as_deref().unwrap_or_default();
        if story.cycle_from.is_some_and(|from| from + 1 == index) {
            self.line("loop for ever");
        }
        if named.is_some() {
            let over = lane.map_or_else(|| self.all(), |lane| format!("L{lane}"));
            self.line(&format!("Note over {over}: {index}. {}", safe(action)));
        }
        for event in &scene.events {
            self.event(index, event);
        }
        if story.point_of_no_return == Some(index) {
            self.line(&format!("Note over {}: point of no return", self.all()));
        }
    }

    fn event(&mut self, index: usize, event: &StepEvent) {
        let Some(lane) = event.lane else { return };
        if event.what == Happening::End {
            self.line(&format!("L{lane}--xL{lane}: {index}. ends"));
            return self.wait(lane, false);
        }
        let Some(collective) = event.what.collective() else { return };
        let names = communicators(self.trace);
        let number = names.iter().position(|name| *name == collective.communicator).unwrap_or_default();
        let label = safe(&collective.to_string());
        match &event.what {
            Happening::Enter { .. } => {
                self.line(&format!("L{lane}->>C{number}: {index}. {label}"));
                self.wait(lane, true);
            }
            Happening::Complete { .. } => {
                self.line(&format!("C{number}-->>L{lane}: {index}. {label} completes"));
                self.wait(lane, false);
            }
            Happening::Retire { .. } => self.line(&format!("C{number}-->>L{lane}: {index}. {label} retires")),
            Happening::Mismatch { .. } => {
                self.line(&format!("C{number}--xL{lane}: {index}. {label} does not match"));
            }
            Happening::Begin
            | Happening::Decide { .. }
            | Happening::End
            | Happening::Fact { .. }
            | Happening::Step { .. }
            | Happening::Turn => {}
        }
    }

    /// Draws a lane as waiting from here on, or not any more.
    fn wait(&mut self, lane: usize, waits: bool) {
        let drawn = self.waiting.iter().position(|waiting| *waiting == lane);
        match (waits, drawn) {
            (true, None) => {
                self.waiting.push(lane);
                self.line(&format!("activate L{lane}"));
            }
            (false, Some(place)) => {
                self.waiting.remove(place);
                self.line(&format!("deactivate L{lane}"));
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    fn ending(&mut self) {
        if self.trace.story.cycle_from.is_some() {
            self.line("end");
        }
        let over = self.all();
        let titles = self.trace.titles();
        for guard in diverged(&self.trace.story) {
            let said = guard.decisions.iter().map(|decision| {
                format!("{} {} (step {})", titles[decision.lane], decision.value, decision.step)
            });
            let said = said.collect::<Vec<_>>().join(", ");
            self.line(&format!(
                "Note over {over}: the guard that diverged: {}",
                safe(&format!("{}? {said}", guard.guard))
            ));
        }
        if let Some(why) = together(&self.trace.story) {
            self.line(&format!("Note over {over}: {}", safe(&why)));
        }
        let mut end = String::new();
        let _ = write!(end, "{}: {}", self.trace.property, self.trace.ending());
        self.line(&format!("Note over {over}: {}", safe(&end)));
    }

    fn all(&self) -> String {
        match self.trace.titles().len() {
            0 | 1 => "L0".to_owned(),
            lanes => format!("L0,L{}", lanes - 1),
        }
    }
}

/// Whether an event is told by a note: it is no arrow, and not just the turn that an arrow shows.
fn told_by_note(event: &StepEvent, scene: &Scene) -> bool {
    let enters =
        |other: &StepEvent| other.lane == event.lane && matches!(other.what, Happening::Enter { .. });
    match event.what {
        Happening::Begin | Happening::End | Happening::Fact { .. } | Happening::Step { .. } => true,
        Happening::Turn => !scene.events.iter().any(enters),
        Happening::Complete { .. }
        | Happening::Decide { .. }
        | Happening::Enter { .. }
        | Happening::Mismatch { .. }
        | Happening::Retire { .. } => false,
    }
}

/// The communicators that `trace` names, in order of appearance.
fn communicators(trace: &Trace) -> Vec<&str> {
    let events = trace.story.scenes.iter().flat_map(|scene| &scene.events);
    let mut names: Vec<&str> = Vec::new();
    for collective in events.filter_map(|event| event.what.collective()) {
        if !names.contains(&collective.communicator.as_str()) {
            names.push(&collective.communicator);
        }
    }
    names
}

/// `text` without what Mermaid reads as more than text.
fn safe(text: &str) -> String {
    let escaped = |character: char| match character {
        '#' | ';' | '<' | '>' | '%' | '"' => format!("#{};", u32::from(character)),
        control if control.is_control() => " ".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(escaped).collect()
}
