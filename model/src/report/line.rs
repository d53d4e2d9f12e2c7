//! One line a run, and one for all of them.

use std::time::Duration;

use super::words::{FAINT, FAULT, GOOD, STRONG, paint};
use crate::explore::{Counts, collision_bound};

/// What the line of a run says.
#[derive(Clone, Debug)]
pub struct RunLine<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// Width of the column of names.
    pub name_width: usize,
    /// What was found, such as "holds" or "violates matched".
    pub finding: String,
    /// Whether that is as it should be.
    pub expected: bool,
    /// How far the exploration came.
    pub counts: Counts,
    /// Steps of the counterexample, if there is one.
    pub path: Option<u32>,
    /// Time it took.
    pub elapsed: Duration,
}

/// Draws the line of a run, with ANSI styles.
#[must_use]
pub fn run_line(line: &RunLine<'_>) -> String {
    let (style, mark) = if line.expected { (GOOD, "✓") } else { (FAULT, "✗") };
    let steps = line.path.map_or_else(String::new, |path| format!("in {path} steps"));
    let (mark, name) = (paint(style, mark), paint(STRONG, &format!("{:<1$}", line.name, line.name_width)));
    let size = format!("{:>13} states  depth {:>4}", grouped(line.counts.unique), line.counts.depth);
    let time = paint(FAINT, &format!("{:>8.2} s", line.elapsed.as_secs_f64()));
    format!("{mark} {name}  {:<26}  {steps:<12}  {size}  {time}", line.finding)
}

/// Draws what [`run_line`] draws in three lines, for a narrow terminal.
#[must_use]
pub fn narrow_lines(line: &RunLine<'_>) -> String {
    let (style, mark) = if line.expected { (GOOD, "✓") } else { (FAULT, "✗") };
    let (mark, name) = (paint(style, mark), paint(STRONG, line.name));
    let steps = line.path.map_or_else(String::new, |path| format!(" in {path} steps"));
    let (states, depth) = (grouped(line.counts.unique), line.counts.depth);
    let time = paint(FAINT, &format!("{:.2} s", line.elapsed.as_secs_f64()));
    format!("{mark} {name}\n  {}{steps}\n  {states} states, depth {depth}, {time}", line.finding)
}

/// Draws the line that follows where something is wrong beside the runs themselves.
#[must_use]
pub fn gaps_line(gaps: usize) -> String {
    let what =
        if gaps == 1 { "1 failure of the whole".to_owned() } else { format!("{gaps} failures of the whole") };
    format!("{}{}", paint(FAULT, &what), paint(FAINT, "; each is told on standard error"))
}

/// Draws the last line of a session of `runs` runs, with ANSI styles; `most` is the largest count of states.
#[must_use]
pub fn summary_line(runs: usize, failed: usize, most: u64) -> String {
    let bound =
        format!("states mistaken for one another: p < {:.0e} in the largest run", collision_bound(most));
    let verdict = match (runs, failed) {
        (0, _) => return paint(FAINT, "no run"),
        (1, 0) => paint(GOOD, "1 run, as expected"),
        (_, 0) => paint(GOOD, &format!("{runs} runs, all as expected")),
        (1, _) => paint(FAULT, "1 run, not as expected"),
        (_, _) => paint(FAULT, &format!("{failed} of {runs} runs not as expected")),
    };
    format!("{verdict}{}", paint(FAINT, &format!("; {bound}")))
}

/// `number` with commas between groups of three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(index, digit): (usize, char)| {
        let after = digits.len() - index;
        let separator = index > 0 && after.is_multiple_of(3);
        separator.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}
