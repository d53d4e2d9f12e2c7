//! `list`: the runs, by name.

use std::io::{self, Write};

use crate::ci::Expected;
use crate::runs::{Exit, Purpose, Registry, Run, Tier, expect_text, tier_text};
use crate::screen::stdout_width;
use serde::Serialize;

use super::Trouble;

/// Columns by which what belongs to a name is moved in, where a line is too short for a row.
const INDENT: usize = 2;

/// A run as JSON.
#[derive(Serialize)]
struct Listed<'a> {
    run: &'a str,
    purpose: Purpose,
    tier: Tier,
    expected: Expected,
    parameters: &'a str,
}

/// Lists the runs: a row each, or a few short lines each where the terminal would break one of the rows.
pub(crate) fn list(registry: &Registry, json: bool) -> Result<Exit, Trouble> {
    let lines = if json { objects(registry)? } else { told(registry, stdout_width()) };
    let mut out = anstream::stdout().lock();
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(Exit::Ok)
}

fn objects(registry: &Registry) -> io::Result<Vec<String>> {
    let object = |run: &Run| {
        let listed = Listed {
            run: run.name,
            purpose: run.purpose,
            tier: run.tier,
            expected: Expected::of(run),
            parameters: &run.params,
        };
        Ok(serde_json::to_string(&listed)?)
    };
    registry.runs.iter().map(object).collect()
}

fn told(registry: &Registry, most: Option<usize>) -> Vec<String> {
    let width = registry.runs.iter().map(|run| run.name.len()).max().unwrap_or(0);
    let rows: Vec<String> = registry.runs.iter().map(|run| row(run, width)).collect();
    match most.filter(|most| rows.iter().any(|row| row.chars().count() > *most)) {
        Some(most) => registry.runs.iter().flat_map(|run| entry(run, most)).collect(),
        None => rows,
    }
}

fn row(run: &Run, width: usize) -> String {
    let (tier, expect) = (tier_text(run.tier), expect_text(run.expect));
    format!("{:<width$}  {tier:<7}  {expect:<26}  {}", run.name, run.params)
}

fn entry(run: &Run, most: usize) -> Vec<String> {
    let said = format!("{}, {}; {}", tier_text(run.tier), expect_text(run.expect), run.params);
    let broken = wrapped(&said, most.saturating_sub(INDENT));
    let moved_in = broken.into_iter().map(|line| format!("{:INDENT$}{line}", ""));
    std::iter::once(run.name.to_owned()).chain(moved_in).collect()
}

/// The text in lines of at most `most` columns, but for words that are longer.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}
