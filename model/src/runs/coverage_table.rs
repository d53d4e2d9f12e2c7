//! What the proofs reach all together, as text: for each run what it is the first to reach.

use super::checks::table;
use crate::coverage::{Coverage, Reached};

const READING: &str = "\
What holds says little if nobody gets there. All together, the quick proofs reach every outcome of a decision, every
change of phase that is drawn (and no other), every failure and every kind of fact, and take every kind of step across
epochs and of both groups, but for the excused ones. Each is listed with the first run that reaches it;
`lockstep-check coverage` repeats it.
";

/// The section; none if nothing is to be reached.
pub(super) fn coverage_text(coverage: &Coverage) -> Option<String> {
    if coverage.0.is_empty() {
        return None;
    }
    let mut firsts: Vec<(&str, Vec<&str>)> = Vec::new();
    for (run, point) in coverage.0.iter().filter_map(|reached| Some((reached.by?, reached.point.as_str()))) {
        match firsts.iter_mut().find(|(first, _)| *first == run) {
            Some((_, points)) => points.push(point),
            None => firsts.push((run, vec![point])),
        }
    }
    let rows: Vec<_> = firsts.iter().map(|(run, points)| [format!("`{run}`"), points.join("; ")]).collect();
    let reached = table(["run", "is the first to reach"], [false; 2], &rows);
    let excused: String = coverage.0.iter().filter_map(excuse).collect();
    Some(format!("{READING}\n{reached}\nExcused:\n\n{excused}"))
}

fn excuse(reached: &Reached) -> Option<String> {
    reached.excuse.map(|excuse| format!("* {}: {excuse}\n", reached.point))
}
