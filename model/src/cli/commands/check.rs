//! `check`: performs runs of the registry, and compares them with what they must find and with what is recorded.

use crate::runs::{Exit, Manifest, Places, Registry, Run, Tier};

use super::Trouble;
use super::gate::Subjects;
use crate::cli::options::{Gate, Part};
use crate::cli::outputs::Program;

/// What to check and how.
pub(crate) struct Check {
    /// Names of runs; all of the tier if there are none.
    pub(crate) names: Vec<String>,
    /// The tier.
    pub(crate) tier: Tier,
    /// Which part of the runs to make.
    pub(crate) part: Part,
    /// How they are gone through.
    pub(crate) gate: Gate,
}

/// Performs runs and judges them.
pub(crate) fn check(registry: &Registry, places: &Places, check: &Check) -> Result<Exit, Trouble> {
    check.gate.examine()?;
    let listed = listed(registry, &check.names, check.tier)?;
    let manifest = Manifest::read(&places.manifest)?;
    let runs = dealt(listed, check.part, &manifest)?;
    let gap = check.names.is_empty().then(|| registry.validate(&manifest).err()).flatten();
    let (manifest, program) = (Some(&manifest), Program::Checker);
    check.gate.go_through(&Subjects { registry, runs, manifest, gap, program })
}

/// The runs called `names`; all of the tier if there are none.
pub(super) fn listed<'a>(
    registry: &'a Registry,
    names: &[String],
    tier: Tier,
) -> Result<Vec<&'a Run>, Trouble> {
    let named = registry.named(names).map_err(Trouble::Failure)?;
    Ok(if named.is_empty() { registry.of_tier(tier).collect() } else { named })
}

fn dealt<'a>(runs: Vec<&'a Run>, part: Part, manifest: &Manifest) -> Result<Vec<&'a Run>, Trouble> {
    let Some(asked) = part.shard else { return Ok(runs) };
    let shard = asked.resolve(&|variable| std::env::var(variable).ok())?;
    Ok(shard.deal(&runs, manifest))
}
