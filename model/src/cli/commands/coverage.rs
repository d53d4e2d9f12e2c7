//! `coverage`: what the proofs of a tier reach, all together.

use std::io::{self, Write};

use crate::coverage::{Coverage, Reached};
use crate::explore::Settings;
use crate::runs::{Exit, Failure, Performed, Purpose, Registry, Run, Tier};
use serde_json::json;

use super::{Trouble, first_failure};

/// Performs the proofs of a tier and shows which run is the first to reach each point.
pub(crate) fn coverage(
    registry: &Registry,
    tier: Tier,
    json: bool,
    settings: &Settings,
) -> Result<Exit, Trouble> {
    let proofs: Vec<&Run> = registry.of_tier(tier).filter(|run| run.purpose == Purpose::Proof).collect();
    let performed: Vec<Performed<'_>> =
        proofs.into_iter().map(|run| Performed::new(run, settings, None)).collect();
    if let Some(failure) = first_failure(&performed) {
        return Err(Trouble::Failure(failure));
    }
    let coverage = Coverage::of(&performed.iter().collect::<Vec<_>>());
    if json {
        show_json(&coverage)?
    } else {
        show(&coverage)?
    }
    judge(&coverage).map(|()| Exit::Ok)
}

/// What the quick proofs among `performed` reach, if that is all that they should: what is recorded of it, whatever else was performed.
pub(super) fn covered(performed: &[Performed<'_>]) -> Result<Coverage, Trouble> {
    let quick: Vec<&Performed<'_>> =
        performed.iter().filter(|performed| performed.run.tier == Tier::Quick).collect();
    let coverage = Coverage::of(&quick);
    judge(&coverage).map(|()| coverage)
}

fn judge(coverage: &Coverage) -> Result<(), Trouble> {
    match coverage.gaps() {
        gaps if gaps.is_empty() => Ok(()),
        gaps => Err(Trouble::Failure(Failure::new(Exit::Vacuous, gaps_text(&gaps)))),
    }
}

/// What is wrong, and what to do.
fn gaps_text(gaps: &[String]) -> String {
    format!(
        "what the proofs reach is not what they should: {}; add a run, or excuse it in the coverage module",
        gaps.join("; ")
    )
}

/// The points that are told: those that are drawn, and others if they are reached.
fn told(coverage: &Coverage) -> impl Iterator<Item = &Reached> {
    coverage.0.iter().filter(|reached| !reached.is_undrawn() || reached.by.is_some())
}

fn show(coverage: &Coverage) -> Result<(), Trouble> {
    let mut out = anstream::stdout().lock();
    let width = coverage.0.iter().map(|reached| reached.point.chars().count()).max().unwrap_or(0);
    for Reached { point, by, excuse } in told(coverage) {
        let by =
            by.map_or_else(|| excuse.map_or("-".to_owned(), |excuse| format!("({excuse})")), str::to_owned);
        writeln!(out, "{point:<width$}  {by}")?;
    }
    Ok(())
}

fn show_json(coverage: &Coverage) -> Result<(), Trouble> {
    let mut out = io::stdout().lock();
    for Reached { point, by, excuse } in told(coverage) {
        writeln!(out, "{}", json!({ "point": point, "run": by, "excuse": excuse }))?;
    }
    Ok(())
}
