//! A story on the terminal: one column a lane, one row a step, only what changed.
//!
//! When the lanes do not fit side by side, each step lists them one below the other.

use super::story::{Scene, Story};
use super::words::{ACTION, FAINT, FAULT, PLAIN, STRONG, TURN, Words, paint};
use crate::explore::Lane;

const STEP_WIDTH: usize = 4;
const GAP: &str = "  ";
const NARROWEST: usize = 12;
const WIDEST_ACTION: usize = 30;

/// Draws `story` for a terminal of `width` columns, with ANSI styles.
///
/// `property` is the violated one and `sentence` what it says.
#[must_use]
pub fn draw(story: &Story, (property, sentence): (&str, &str), width: usize) -> String {
    let rows: Vec<Row> =
        story.scenes.iter().enumerate().map(|(index, scene)| Row::new(story, index, scene)).collect();
    let titles = story.scenes.first().map_or(&[][..], |scene| &scene.lanes);
    let mut lines = match widths(titles, &rows, width) {
        Some(widths) => side_by_side(story, titles, &rows, &widths),
        None => stacked(story, titles, &rows, width),
    };
    lines.push(String::new());
    lines.extend(verdict(story, (property, sentence), width));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// What a step shows: its action, and each lane's changes.
struct Row {
    action: Words,
    lanes: Vec<Vec<Words>>,
}

impl Row {
    fn new(story: &Story, index: usize, scene: &Scene) -> Self {
        let before = index.checked_sub(1).map(|index| &story.scenes[index]);
        let old = |lane: usize| before.and_then(|scene| scene.lanes.get(lane));
        Self {
            action: Words::new(ACTION, scene.action.as_deref().unwrap_or("(start)")),
            lanes: scene.lanes.iter().enumerate().map(|(number, lane)| changes(old(number), lane)).collect(),
        }
    }
}

/// The cells of `lane` that differ from `before`; all of them without a `before`.
fn changes(before: Option<&Lane>, lane: &Lane) -> Vec<Words> {
    let value_in = |lane: &Lane, field: &str| {
        lane.cells.iter().find(|(name, _)| name == field).map(|(_, value)| value.clone())
    };
    let old = |field: &str| before.and_then(|before| value_in(before, field));
    let changed = lane.cells.iter().filter(|(field, value)| old(field).as_ref() != Some(value));
    let shown = changed.map(|(field, value)| match old(field) {
        Some(old) => Words::new(FAINT, field).and(FAINT, &old).and(FAINT, "→").and(STRONG, value),
        None => Words::new(FAINT, field).and(PLAIN, value),
    });
    let gone = before
        .into_iter()
        .flat_map(|before| &before.cells)
        .filter(|(field, _)| value_in(lane, field).is_none());
    shown.chain(gone.map(|(field, _)| Words::new(FAINT, field).and(STRONG, "gone"))).collect()
}

/// Widths of the action column and the lanes, or `None` if they do not fit.
fn widths(titles: &[Lane], rows: &[Row], width: usize) -> Option<Vec<usize>> {
    let action =
        rows.iter().map(|row| row.action.width()).max().unwrap_or(0).clamp("action".len(), WIDEST_ACTION);
    let lane = |(number, lane): (usize, &Lane)| {
        let cells = rows.iter().filter_map(|row| row.lanes.get(number)).flatten().map(Words::width);
        cells.max().unwrap_or(0).max(lane.title.chars().count())
    };
    let mut widths: Vec<usize> = std::iter::once(action).chain(titles.iter().enumerate().map(lane)).collect();
    let fixed = STEP_WIDTH + GAP.len() * widths.len();
    while fixed + widths.iter().sum::<usize>() > width {
        let widest = widths.iter_mut().max_by_key(|width| **width).filter(|width| **width > NARROWEST)?;
        *widest -= 1;
    }
    Some(widths)
}

fn side_by_side(story: &Story, titles: &[Lane], rows: &[Row], widths: &[usize]) -> Vec<String> {
    let total = STEP_WIDTH + widths.iter().map(|width| width + GAP.len()).sum::<usize>();
    let heading = std::iter::once("action").chain(titles.iter().map(|lane| lane.title.as_str()));
    let cells: Vec<Vec<Words>> = heading.map(|title| vec![Words::new(STRONG, title)]).collect();
    let mut lines = grid_row("step", &cells, widths);
    lines.push(rule(widths));
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<Vec<Words>> =
            std::iter::once(vec![row.action.clone()]).chain(row.lanes.iter().cloned()).collect();
        lines.extend(grid_row(&index.to_string(), &cells, widths));
        lines.extend(marks(story, index, total));
    }
    lines
}

fn rule(widths: &[usize]) -> String {
    let columns = std::iter::once(STEP_WIDTH).chain(widths.iter().copied()).map(|width| "─".repeat(width));
    paint(FAINT, &columns.collect::<Vec<_>>().join(GAP))
}

/// The lines of one row: each column's cells are wrapped to its width and put side by side.
fn grid_row(step: &str, cells: &[Vec<Words>], widths: &[usize]) -> Vec<String> {
    let wrap =
        |(cells, width): (&Vec<Words>, &usize)| cells.iter().flat_map(|cell| cell.wrap(*width)).collect();
    let columns: Vec<Vec<Words>> = cells.iter().zip(widths).map(wrap).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let line = |number: usize| {
        let step = paint(FAINT, &format!("{:>STEP_WIDTH$}", if number == 0 { step } else { "" }));
        let cell = |(column, width): (&Vec<Words>, &usize)| {
            column.get(number).cloned().unwrap_or_default().paint(*width)
        };
        std::iter::once(step).chain(columns.iter().zip(widths).map(cell)).collect::<Vec<_>>().join(GAP)
    };
    (0..height).map(line).collect()
}

fn stacked(story: &Story, titles: &[Lane], rows: &[Row], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let room = width.saturating_sub(STEP_WIDTH + GAP.len());
        lines.extend(grid_row(&index.to_string(), &[vec![row.action.clone()]], &[room]));
        for (lane, cells) in titles.iter().zip(&row.lanes).filter(|(_, cells)| !cells.is_empty()) {
            let title = Words::new(STRONG, &lane.title).wrap(room);
            let cells = cells.iter().flat_map(|cell| cell.wrap(room.saturating_sub(GAP.len())));
            lines.extend(title.iter().map(|line| indented(1, line)));
            lines.extend(cells.map(|line| indented(2, &line)));
        }
        lines.extend(marks(story, index, width));
    }
    lines
}

fn indented(levels: usize, line: &Words) -> String {
    format!("{:STEP_WIDTH$}{}{}", "", GAP.repeat(levels), line.paint(0))
}

/// What is to be said between step `index` and the next.
fn marks(story: &Story, index: usize, width: usize) -> Vec<String> {
    let last = index + 1 == story.scenes.len();
    let no_return = story.point_of_no_return == Some(index) && !last;
    let repeats = story.cycle_from == Some(index) && !last;
    let texts = [(no_return, "point of no return"), (repeats, "from here on, for ever")];
    texts.iter().filter(|(shown, _)| *shown).map(|(_, text)| mark(text, width)).collect()
}

fn mark(text: &str, width: usize) -> String {
    let rest = width.saturating_sub(STEP_WIDTH + GAP.len() + text.chars().count() + 1);
    paint(TURN, &format!("{}{GAP}{text} {}", "╌".repeat(STEP_WIDTH), "╌".repeat(rest)))
}

fn verdict(story: &Story, (property, sentence): (&str, &str), width: usize) -> Vec<String> {
    let colon = if sentence.is_empty() { "" } else { ":" };
    let fault = Words::new(FAULT, &format!("✗ {property}{colon}")).and(PLAIN, sentence);
    let steps = story.steps();
    let after = format!("after {steps} {}: {}", if steps == 1 { "step" } else { "steps" }, story.ending);
    let indent = |line: &Words| format!("{GAP}{}", line.paint(0));
    let room = width.saturating_sub(GAP.len());
    fault.wrap(room).iter().chain(&Words::new(FAINT, &after).wrap(room)).map(indent).collect()
}
