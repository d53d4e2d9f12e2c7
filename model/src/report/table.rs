//! A story on the terminal: one column a lane, one row a step, only what changed, and a band across the columns where ranks meet.
//!
//! When the lanes do not fit side by side, each step lists them one below the other.

use super::band::{Band, across};
use super::diverged::{Diverged, diverged, together};
use super::row::Row;
use super::story::Story;
use super::words::{FAINT, FAULT, PLAIN, STRONG, TURN, Words, paint};

const STEP_WIDTH: usize = 4;
const GAP: &str = "  ";
const NARROWEST: usize = 12;
const WIDEST_ACTION: usize = 30;

/// How much of a story is drawn, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether whole states are drawn instead of what changed.
    pub full: bool,
}

/// Draws `story`, with ANSI styles.
///
/// `property` is the violated one and `sentence` what it says.
#[must_use]
pub fn draw(story: &Story, (property, sentence): (&str, &str), drawing: Drawing) -> String {
    let Drawing { width, full } = drawing;
    let guards = diverged(story);
    let rows: Vec<Row> = (0..story.scenes.len()).map(|index| Row::new(story, index, &guards, full)).collect();
    let titles: Vec<&str> = story.titles().collect();
    let mut lines = match widths(&titles, &rows, width) {
        Some(widths) => side_by_side(story, &titles, &rows, &widths),
        None => stacked(story, &titles, &rows, width),
    };
    lines.push(String::new());
    lines.extend(verdict(story, (property, sentence), width));
    lines.extend(guards.iter().flat_map(|guard| told(guard, &titles, width)));
    lines.extend(together(story).iter().flat_map(|why| told_together(why, width)));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Widths of the action column and the lanes, or `None` if they do not fit.
fn widths(titles: &[&str], rows: &[Row], width: usize) -> Option<Vec<usize>> {
    let action =
        rows.iter().map(|row| row.action.width()).max().unwrap_or(0).clamp("action".len(), WIDEST_ACTION);
    let lane = |(number, title): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.lanes.get(number)).flatten().map(Words::width);
        let bands = rows.iter().filter_map(|row| row.bands.get(number)?.as_ref()).map(Band::width);
        cells.chain(bands).max().unwrap_or(0).max(title.chars().count())
    };
    let mut widths: Vec<usize> = std::iter::once(action).chain(titles.iter().enumerate().map(lane)).collect();
    let fixed = STEP_WIDTH + GAP.len() * widths.len();
    while fixed + widths.iter().sum::<usize>() > width {
        let widest = widths.iter_mut().max_by_key(|width| **width).filter(|width| **width > NARROWEST)?;
        *widest -= 1;
    }
    Some(widths)
}

fn side_by_side(story: &Story, titles: &[&str], rows: &[Row], widths: &[usize]) -> Vec<String> {
    let total = STEP_WIDTH + widths.iter().map(|width| width + GAP.len()).sum::<usize>();
    let heading = std::iter::once(&"action").chain(titles);
    let cells: Vec<Vec<Words>> = heading.map(|title| vec![Words::new(STRONG, title)]).collect();
    let mut lines = grid_row("step", &cells, &[], widths);
    lines.push(rule(widths));
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<Vec<Words>> =
            std::iter::once(vec![row.action.clone()]).chain(row.lanes.iter().cloned()).collect();
        lines.extend(grid_row(&index.to_string(), &cells, &row.bands, widths));
        lines.extend(marks(story, index, total));
    }
    lines
}

fn rule(widths: &[usize]) -> String {
    let columns = std::iter::once(STEP_WIDTH).chain(widths.iter().copied()).map(|width| "─".repeat(width));
    paint(FAINT, &columns.collect::<Vec<_>>().join(GAP))
}

/// The lines of one row: each column's cells are wrapped to its width and put side by side, below the band if there is one.
fn grid_row(step: &str, cells: &[Vec<Words>], bands: &[Option<Band>], widths: &[usize]) -> Vec<String> {
    let mut columns: Vec<Vec<Words>> =
        cells.iter().zip(widths).map(|(cells, width)| wrapped(cells, *width)).collect();
    if !bands.is_empty() {
        columns.iter_mut().skip(1).for_each(|column| column.insert(0, Words::default()));
    }
    let height = columns.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let line = |number: usize| {
        let step = paint(FAINT, &format!("{:>STEP_WIDTH$}", if number == 0 { step } else { "" }));
        let cell = |(column, width): (&Vec<Words>, &usize)| {
            column.get(number).cloned().unwrap_or_default().paint(*width)
        };
        let mut cells: Vec<String> = columns.iter().zip(widths).map(cell).collect();
        if number == 0 && !bands.is_empty() {
            cells.truncate(1);
            cells.push(across(bands, &widths[1..]));
        }
        std::iter::once(step).chain(cells).collect::<Vec<_>>().join(GAP)
    };
    (0..height).map(line).collect()
}

fn wrapped(cells: &[Words], width: usize) -> Vec<Words> {
    cells.iter().flat_map(|cell| cell.wrap(width)).collect()
}

fn stacked(story: &Story, titles: &[&str], rows: &[Row], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let room = width.saturating_sub(STEP_WIDTH + GAP.len());
    for (index, row) in rows.iter().enumerate() {
        lines.extend(grid_row(&index.to_string(), &[vec![row.action.clone()]], &[], &[room]));
        for (number, title) in titles.iter().enumerate() {
            let band = row.bands.get(number).and_then(Option::as_ref).map(Band::told);
            let cells = band.map(|(style, text)| Words::new(style, &text)).into_iter();
            let cells: Vec<Words> =
                cells.chain(row.lanes.get(number).into_iter().flatten().cloned()).collect();
            if !cells.is_empty() {
                lines.extend(Words::new(STRONG, title).wrap(room).iter().map(|line| indented(1, line)));
                let lower = wrapped(&cells, room.saturating_sub(GAP.len()));
                lines.extend(lower.iter().map(|line| indented(2, line)));
            }
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
    let room = width.saturating_sub(GAP.len());
    fault.wrap(room).iter().chain(&Words::new(FAINT, &after).wrap(room)).map(set_in).collect()
}

/// What a guard said on each lane.
fn told(guard: &Diverged, titles: &[&str], width: usize) -> Vec<String> {
    let said = guard.decisions.iter().map(|decision| {
        let title = titles.get(decision.lane).copied().unwrap_or_default();
        format!("{title}: {} (step {})", decision.value, decision.step)
    });
    let said: Vec<String> = said.collect();
    let words = Words::new(TURN, "◆ the guard that diverged:")
        .and(PLAIN, &format!("{}?", guard.guard))
        .and(STRONG, &said.join(", "));
    words.wrap(width.saturating_sub(GAP.len())).iter().map(set_in).collect()
}

fn told_together(why: &str, width: usize) -> Vec<String> {
    let words = Words::new(TURN, "◆").and(PLAIN, why);
    words.wrap(width.saturating_sub(GAP.len())).iter().map(set_in).collect()
}

fn set_in(line: &Words) -> String {
    format!("{GAP}{}", line.paint(0))
}
