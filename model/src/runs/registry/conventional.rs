//! Runs of the conventional design: the catalogue of hazards.

use super::name;
use crate::conventional::hazards::{Hazard, variants};
use crate::runs::run::Run;
use crate::runs::runner::Progress;

/// Every variant in both loops.
pub(super) fn hazards() -> Vec<Run> {
    let both = |hazard: Hazard| [false, true].map(|overlap| run(&hazard, overlap));
    variants().into_iter().flat_map(both).collect()
}

fn run(hazard: &Hazard, overlap: bool) -> Run {
    let loops = if overlap { "overlap" } else { "normal" };
    let name = name(&["conventional", hazard.name, loops]);
    let model = Progress(hazard.model(overlap));
    let run = match hazard.expected(overlap) {
        None if hazard.is_safe() => Run::control(name, model),
        None => Run::masked(name, model),
        Some(property) => Run::hazard(name, property, model),
    };
    run.params(format!(
        "ranks 2, requests {}, {loops}; {} ({}; {})",
        hazard.requests, hazard.rule, hazard.consequence, hazard.sources
    ))
}
