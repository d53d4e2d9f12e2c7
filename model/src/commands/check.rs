//! `check`: performs runs, judges them, and leaves behind what other tools read.

use lockstep_model::ci::{Certificate, Findings};
use lockstep_model::runs::{Exit, Manifest, Places, Registry, Run, Tier};

use super::{Session, Trouble, perform};
use crate::options::{Effort, Outputs, Part};
use crate::outputs::conclude;
use crate::watch::Display;
use lockstep_model::screen::Screen;

/// What to check and how.
pub(crate) struct Check {
    /// Names of runs; all of the tier if there are none.
    pub(crate) names: Vec<String>,
    /// The tier.
    pub(crate) tier: Tier,
    /// Which part of the runs to make.
    pub(crate) part: Part,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Whether to show expected counterexamples.
    pub(crate) trace: bool,
    /// What to leave behind.
    pub(crate) outputs: Outputs,
    /// How much it may cost.
    pub(crate) effort: Effort,
}

/// Performs runs and judges them.
pub(crate) fn check(registry: &Registry, places: &Places, check: &Check) -> Result<Exit, Trouble> {
    let listed = listed(registry, &check.names, check.tier)?;
    let manifest = Manifest::read(&places.manifest)?;
    let runs = dealt(listed, check.part, &manifest)?;
    let session = Session {
        settings: check.effort.into(),
        memory: check.effort.memory_limit()?,
        recorded: Some(&manifest),
        judged: true,
        display: if check.json { Display::Nothing } else { Display::of_stderr() },
        screen: Screen::new(registry, check.json, check.trace),
    };
    let mut findings = Findings::default();
    perform(&runs, &session, &mut |performed| {
        let certificate = Certificate::of(performed, registry, manifest.find(performed.run.name));
        check.outputs.leave(&certificate, performed.story(), registry)?;
        findings.certificates.push(certificate);
        Ok(())
    })?;
    if check.names.is_empty() {
        findings.failures.extend(registry.validate(&manifest).err());
    }
    conclude(&findings, &check.outputs.forms, registry)?;
    session.screen.complain(&findings.failures)?;
    Ok(findings.exit())
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
