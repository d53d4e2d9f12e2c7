//! `list`: the runs, by name.

use std::io::Write;

use crate::runs::{Exit, Registry, expect_text, tier_text};

use super::Trouble;

/// Lists the runs.
pub(crate) fn list(registry: &Registry) -> Result<Exit, Trouble> {
    let mut out = anstream::stdout().lock();
    let width = registry.runs.iter().map(|run| run.name.len()).max().unwrap_or(0);
    for run in &registry.runs {
        let (tier, expect) = (tier_text(run.tier), expect_text(run.expect));
        writeln!(out, "{:<width$}  {tier:<7}  {expect:<26}  {}", run.name, run.params)?;
    }
    Ok(Exit::Ok)
}
