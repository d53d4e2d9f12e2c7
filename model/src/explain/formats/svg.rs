//! A trace as swim lanes: time downwards, a lane a rank, a bar while a rank waits, a band across the ranks that meet.

use std::collections::BTreeMap;

use super::canvas::{Canvas, Layer, Line, words, wrap};
use crate::explain::trace::Trace;
use crate::explore::{Collective, Happening, WAITS_IN};
use crate::report::{Change, Diverged, Scene, diverged, leaves, together};

const STYLE: &str = "\
.page,.ground{fill:#fff}.zebra{fill:#f6f8fb}\
text{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#334155}\
.title{font:600 16px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#0f172a}\
.note{font:12px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#475569}\
.head{font:600 13px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#0f172a}\
.step,.faint{fill:#76849b}.new{fill:#0f172a;font-weight:600}\
.blue{fill:#1d4ed8;font-weight:600}.amber{fill:#b45309;font-weight:600}.red{fill:#b91c1c;font-weight:600}\
.green{fill:#15803d;font-weight:600}\
.life{stroke:#cbd5e1;stroke-width:1.5}.rule{stroke:#e2e8f0}.turning{stroke:#d97706;stroke-width:1.5;stroke-dasharray:6 4}\
.wait{fill:#bfdbfe;stroke:#3b82f6}.queue{fill:#e9d5ff;stroke:#a855f7}\
.band{fill:#dcfce7;stroke:#22c55e}.broken{fill:#fee2e2;stroke:#ef4444;stroke-dasharray:4 3}\
.thread{stroke:#22c55e}.torn{stroke:#ef4444;stroke-dasharray:4 3}\
.cross{stroke:#dc2626;stroke-width:2.5;stroke-linecap:round}\
.fact{fill:#0ea5e9}.turn{fill:#fff;stroke:#64748b;stroke-width:1.5}.other{fill:#64748b}";

const MARGIN: usize = 24;
const GUTTER: usize = 40;
/// Height of a line of text, and width of its letters with two decimals.
const LINE: usize = 15;
const LETTER_CENTS: usize = 662;
const BAND: usize = 22;
const PADDING: usize = 7;
/// From the left edge of a lane to its lifeline, and to its text.
const LIFE: usize = 14;
const TEXT: usize = 36;
const NARROWEST: usize = 24;
const WIDEST: usize = 46;

/// Draws `trace`.
pub(super) fn svg(trace: &Trace) -> String {
    let mut sheet = Sheet::new(trace);
    sheet.heading();
    for index in 0..trace.story.scenes.len() {
        sheet.step(index);
    }
    sheet.ending();
    let title = format!("{} violates {}", trace.run, trace.property);
    sheet.canvas.document([sheet.width, sheet.y + MARGIN], &title, STYLE)
}

struct Sheet<'a> {
    trace: &'a Trace,
    guards: Vec<Diverged>,
    canvas: Canvas,
    /// Letters in a line of a lane.
    letters: usize,
    lane: usize,
    width: usize,
    y: usize,
    /// By lane: where its lifeline begins, while it lives.
    lives: Vec<Option<usize>>,
    /// By lane and communicator: where waits that are not over began, oldest first.
    open: BTreeMap<(usize, String), Vec<usize>>,
}

impl<'a> Sheet<'a> {
    fn new(trace: &'a Trace) -> Self {
        let guards = diverged(&trace.story);
        let lanes = trace.titles().len().max(1);
        let scenes = trace.story.scenes.iter().enumerate();
        let lines = scenes.flat_map(|(index, scene)| {
            (0..lanes).flat_map(move |lane| told(trace, &[], (index, scene), lane))
        });
        let letters = lines.map(|line| length(&line)).max().unwrap_or(0).clamp(NARROWEST, WIDEST);
        let lane = TEXT + (letters * LETTER_CENTS).div_ceil(100) + 16;
        let width = (2 * MARGIN + GUTTER + lanes * lane).max(560);
        let (canvas, open, lives) = (Canvas::default(), BTreeMap::new(), vec![None; lanes]);
        Self { trace, guards, canvas, letters, lane, width, y: MARGIN, lives, open }
    }

    fn left(&self, lane: usize) -> usize {
        MARGIN + GUTTER + lane * self.lane
    }

    fn right(&self) -> usize {
        self.width - MARGIN
    }

    /// Lines of running text across the sheet.
    fn paragraph(&mut self, class: &str, line: &Line, height: usize) {
        let letters = (self.width - 2 * MARGIN) * 5 / (2 * height);
        for line in wrap(line, letters) {
            self.y += height;
            self.canvas.text(class, [MARGIN, self.y], &line);
        }
    }

    fn heading(&mut self) {
        let mut title = words("", &self.trace.run);
        title.extend(words("red", &format!("violates {}", self.trace.property)));
        self.paragraph("title", &title, 20);
        self.paragraph("note", &words("", &self.trace.sentence), 17);
        self.paragraph("note", &words("", &self.trace.params), 17);
        self.y += 30;
        for (lane, title) in self.trace.titles().into_iter().enumerate() {
            let x = self.left(lane) + LIFE - 4;
            self.canvas.text("head", [x, self.y], &words("", title));
        }
        self.y += 10;
        self.canvas.line(Layer::Ground, "rule", [MARGIN, self.y], [self.right(), self.y]);
        self.lives.fill(Some(self.y));
    }

    fn step(&mut self, index: usize) {
        let scene = &self.trace.story.scenes[index];
        let lanes = scene.lanes.len();
        let band = if scene.events.iter().any(|event| meeting(&event.what).is_some()) { BAND } else { 0 };
        let texts: Vec<Vec<Line>> = (0..lanes).map(|lane| self.texts((index, scene), lane)).collect();
        let most = texts.iter().map(Vec::len).max().unwrap_or(0).max(usize::from(band == 0));
        let height = band + most * LINE + 2 * PADDING;
        let ground = if index.is_multiple_of(2) { "ground" } else { "zebra" };
        self.canvas.rectangle(Layer::Ground, ground, [MARGIN, self.y], [self.width - 2 * MARGIN, height]);
        let first = self.y + PADDING + 11;
        self.canvas.text(
            "step",
            [MARGIN + 6, first + if band > 0 { 4 } else { 0 }],
            &words("", &index.to_string()),
        );
        self.bands(scene);
        for (lane, lines) in texts.iter().enumerate() {
            self.marks(scene, lane, first + band);
            for (number, line) in lines.iter().enumerate() {
                let place = [self.left(lane) + TEXT, first + band + number * LINE];
                self.canvas.text("", place, line);
            }
        }
        self.y += height;
        self.turning(index);
    }

    /// What a lane says in a step, in lines that fit.
    fn texts(&self, (index, scene): (usize, &Scene), lane: usize) -> Vec<Line> {
        let lines = told(self.trace, &self.guards, (index, scene), lane);
        lines.iter().flat_map(|line| wrap(line, self.letters)).collect()
    }

    /// The collectives that end in a step, joined across lanes that meet and broken where they do not.
    fn bands(&mut self, scene: &Scene) {
        let on = |lane: usize| {
            scene
                .events
                .iter()
                .filter(move |event| event.lane == Some(lane))
                .find_map(|event| meeting(&event.what))
        };
        let lanes = scene.lanes.len();
        let meetings: Vec<Option<(&Collective, bool)>> = (0..lanes).map(on).collect();
        let y = self.y + PADDING;
        let meets = |lane: usize| meetings.get(lane).copied().flatten().is_some_and(|(_, matches)| matches);
        let mut from = self.left(0) + LIFE - 6;
        for (lane, meeting) in meetings.iter().enumerate() {
            let Some((collective, matches)) = meeting else { continue };
            if !(lane > 0 && meets(lane - 1) && *matches) {
                from = self.left(lane) + LIFE - 6;
            }
            let class = if *matches { ["band", "green"] } else { ["broken", "red"] };
            let end = self.left(lane) + self.lane;
            // A thin line through the lanes between two that are not neighbours.
            let next =
                (lane + 1..lanes).find(|next| meetings[*next].is_some()).filter(|next| *next > lane + 1);
            if let Some(next) = next {
                let to = self.left(next) + LIFE - 6;
                self.canvas.line(
                    Layer::Marks,
                    if *matches { "thread" } else { "torn" },
                    [end - 22, y + 9],
                    [to, y + 9],
                );
                if !matches {
                    self.cross([to - 8, y + 9]);
                }
            }
            if !(*matches && meets(lane + 1)) {
                self.canvas.rectangle(Layer::Marks, class[0], [from, y], [end - 22 - from, BAND - 4]);
            }
            let label = words(class[1], &collective.to_string());
            self.canvas.text("", [self.left(lane) + TEXT, y + 13], &label);
            if meetings.get(lane + 1).is_some_and(Option::is_some) && !(*matches && meets(lane + 1)) {
                self.cross([end - 8, y + 9]);
            }
        }
    }

    fn cross(&mut self, [x, y]: [usize; 2]) {
        self.canvas.line(Layer::Marks, "cross", [x - 5, y - 5], [x + 5, y + 5]);
        self.canvas.line(Layer::Marks, "cross", [x - 5, y + 5], [x + 5, y - 5]);
    }

    /// Dots on the lifeline, and the bars of what a lane waits in.
    fn marks(&mut self, scene: &Scene, lane: usize, baseline: usize) {
        let (x, y) = (self.left(lane) + LIFE, baseline - 4);
        for event in scene.events.iter().filter(|event| event.lane.unwrap_or(0) == lane) {
            match &event.what {
                Happening::Enter { collective } => {
                    self.open.entry((lane, collective.communicator.clone())).or_default().push(y + 6);
                }
                Happening::Complete { collective } => {
                    self.over(lane, &collective.communicator, self.y + PADDING)
                }
                Happening::Retire { collective } => self.over(lane, &collective.communicator, y),
                Happening::Fact { .. } => self.canvas.dot("fact", [x, y]),
                Happening::Step { .. } => self.canvas.dot("other", [x, y]),
                Happening::Turn => self.canvas.dot("turn", [x, y]),
                Happening::Begin => self.begin(lane, y),
                Happening::End => self.end(lane, y),
                Happening::Decide { .. } | Happening::Mismatch { .. } => {}
            }
        }
    }

    fn begin(&mut self, lane: usize, y: usize) {
        self.lives[lane] = Some(y);
        self.canvas.dot("turn", [self.left(lane) + LIFE, y]);
    }

    /// A lane ends at `y`, with all that it waits in.
    fn end(&mut self, lane: usize, y: usize) {
        self.die(lane, y);
        self.cross([self.left(lane) + LIFE, y]);
    }

    /// Draws the life of a lane, if it lives, and what it still waits in, down to `y`.
    fn die(&mut self, lane: usize, y: usize) {
        let x = self.left(lane) + LIFE;
        if let Some(from) = self.lives[lane].take() {
            self.canvas.line(Layer::Ground, "life", [x, from], [x, y]);
        }
        let (ended, open) = std::mem::take(&mut self.open).into_iter().partition(|((of, _), _)| *of == lane);
        self.open = open;
        let ended: BTreeMap<(usize, String), Vec<usize>> = ended;
        for ((lane, communicator), open) in ended {
            open.into_iter().for_each(|from| self.bar((lane, &communicator), from, y));
        }
    }

    /// The oldest wait of a lane on a communicator ends at `y`.
    fn over(&mut self, lane: usize, communicator: &str, y: usize) {
        let open = self.open.get_mut(&(lane, communicator.to_owned())).filter(|open| !open.is_empty());
        let Some(from) = open.map(|open| open.remove(0)) else { return };
        self.bar((lane, communicator), from, y);
    }

    fn bar(&mut self, (lane, communicator): (usize, &str), from: usize, to: usize) {
        let (class, aside) = if communicator == "device" { ("queue", 10) } else { ("wait", 0) };
        let place = [self.left(lane) + LIFE - 4 + aside, from];
        self.canvas.rectangle(Layer::Lines, class, place, [8, to.saturating_sub(from)]);
    }

    /// The point of no return, and where the steps begin to repeat.
    fn turning(&mut self, index: usize) {
        let story = &self.trace.story;
        let last = index + 1 == story.scenes.len();
        let texts = [
            (story.point_of_no_return == Some(index), "point of no return"),
            (story.cycle_from == Some(index), "from here on, for ever"),
        ];
        for (_, text) in texts.into_iter().filter(|(shown, _)| *shown && !last) {
            self.y += 10;
            self.canvas.line(Layer::Marks, "turning", [MARGIN, self.y], [self.right(), self.y]);
            self.y += 14;
            self.canvas.text("", [self.left(0) + TEXT, self.y], &words("amber", text));
            self.y += 8;
        }
    }

    fn ending(&mut self) {
        for lane in 0..self.lives.len() {
            self.die(lane, self.y);
        }
        self.canvas.line(Layer::Ground, "rule", [MARGIN, self.y], [self.right(), self.y]);
        self.y += 8;
        let mut end = words("red", &format!("{} violated", self.trace.property));
        end.extend(words("", &self.trace.ending()));
        self.paragraph("note", &end, 17);
        let titles = self.trace.titles();
        for guard in std::mem::take(&mut self.guards) {
            let mut line = words("amber", "the guard that diverged:");
            line.extend(words("", &format!("{}?", guard.guard)));
            let said = guard.decisions.iter().map(|decision| {
                format!("{}: {} (step {})", titles[decision.lane], decision.value, decision.step)
            });
            line.extend(words("new", &said.collect::<Vec<_>>().join(", ")));
            self.paragraph("note", &line, 17);
        }
        if let Some(why) = together(&self.trace.story) {
            self.paragraph("note", &words("", &why), 17);
        }
        self.paragraph("note", &words("faint", LEGEND), 17);
    }
}

const LEGEND: &str = "blue dot: a fact reaches the lane · ring: its loop turns · ▶ enters, ◀ is over on the device · \
    bar: waits or is queued · green band: all ranks met · red: they did not";

/// A collective that ends in an event, and whether the lanes met in it.
fn meeting(what: &Happening) -> Option<(&Collective, bool)> {
    match what {
        Happening::Complete { collective } => Some((collective, true)),
        Happening::Mismatch { collective } => Some((collective, false)),
        Happening::Begin
        | Happening::Decide { .. }
        | Happening::End
        | Happening::Enter { .. }
        | Happening::Fact { .. }
        | Happening::Retire { .. }
        | Happening::Step { .. }
        | Happening::Turn => None,
    }
}

fn length(line: &Line) -> usize {
    line.iter().map(|(_, word)| word.chars().count() + 1).sum::<usize>().saturating_sub(1)
}

/// What a lane says in a step: decisions that diverged, what happened, and what changed.
fn told(trace: &Trace, guards: &[Diverged], (index, scene): (usize, &Scene), lane: usize) -> Vec<Line> {
    let here = |guard: &&Diverged| {
        guard.decisions.iter().any(|decision| (decision.step, decision.lane) == (index, lane))
    };
    let decided = guards.iter().filter(here).flat_map(|guard| {
        let mine = guard.decisions.iter().filter(move |decision| decision.lane == lane);
        mine.map(|decision| {
            [words("amber", &format!("◆ {}?", guard.guard)), words("red", &decision.value)].concat()
        })
    });
    let events = scene.events.iter().filter(|event| event.lane.unwrap_or(0) == lane);
    let happened = events.filter_map(|event| match &event.what {
        Happening::Begin => Some(words("green", "begins")),
        Happening::End => Some(words("red", "ends here")),
        Happening::Enter { collective } => Some(words("blue", &format!("▶ {collective}"))),
        Happening::Retire { collective } => Some(words("blue", &format!("◀ {collective}"))),
        Happening::Fact { fact } => Some(words("new", fact)),
        Happening::Step { text } => Some(words("new", text)),
        Happening::Complete { .. }
        | Happening::Decide { .. }
        | Happening::Mismatch { .. }
        | Happening::Turn => None,
    });
    let changes = trace.story.changes(index);
    let shown = changes.get(lane).filter(|_| !scene.ends(lane)).into_iter().flatten();
    let changed =
        shown.filter(|change| change.field != WAITS_IN).flat_map(leaves).map(|change| line_of(&change));
    decided.chain(happened).chain(changed.collect::<Vec<_>>()).collect()
}

fn line_of(change: &Change) -> Line {
    let mut line = words("faint", &change.field);
    line.extend(change.from.iter().flat_map(|from| words("faint", &format!("{from} →"))));
    line.extend(words(
        if change.from.is_some() { "new" } else { "" },
        change.to.as_deref().unwrap_or("gone"),
    ));
    line
}
