//! `check`: performs runs, judges them, and leaves behind what other tools read.

use std::path::PathBuf;

use crate::ci::{Certificate, Findings};
use crate::explain::Trace;
use crate::report::grouped;
use crate::runs::{Exit, Failure, Manifest, Places, Recorded, Registry, Run, Tier, Verdict};

use super::{Session, Trouble, perform};
use crate::cli::checkpoint::{Checkpoints, Subject};
use crate::cli::files::{examine_replaced, examine_text};
use crate::cli::options::{Effort, Kept, Outputs, Part};
use crate::cli::outputs::{conclude, write_trace};
use crate::cli::watch::{Display, Stop};
use crate::screen::{Screen, tell};

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
    pub(crate) show: bool,
    /// Where to write the counterexample of the only run.
    pub(crate) trace: Option<PathBuf>,
    /// How the only run is kept.
    pub(crate) kept: Kept,
    /// What to leave behind.
    pub(crate) outputs: Outputs,
    /// How much it may cost.
    pub(crate) effort: Effort,
}

/// Performs runs and judges them.
pub(crate) fn check(registry: &Registry, places: &Places, check: &Check) -> Result<Exit, Trouble> {
    refuse_several(check)?;
    check.outputs.examine()?;
    check.trace.as_deref().map_or(Ok(()), examine_text)?;
    let listed = listed(registry, &check.names, check.tier)?;
    let manifest = Manifest::read(&places.manifest)?;
    let runs = dealt(listed, check.part, &manifest)?;
    let session = Session {
        settings: check.effort.into(),
        memory: check.effort.memory_limit()?,
        recorded: Some(&manifest),
        judged: Some(Recorded { manifest: &manifest, spec: &registry.spec_fingerprint }),
        display: Display::unless(check.json),
        screen: Screen::new(registry, check.json, check.show),
        kept: kept(registry, &runs, &check.kept)?,
        stop: Stop::on_signals()?,
    };
    let mut findings = Findings::default();
    let performed = perform(&runs, &session, &mut |performed| {
        let certificate = Certificate::of(performed, registry, manifest.find(performed.run.name));
        check.outputs.leave(&certificate, performed, registry)?;
        findings.certificates.push(certificate);
        let Some(path) = &check.trace else { return Ok(()) };
        let trace = Trace::of(performed, registry);
        write_trace(path, trace.as_ref(), (performed.run.name, &performed.finding()))
    })?;
    if check.names.is_empty() {
        findings.failures.extend(registry.validate(&manifest).err());
    }
    findings.failures.extend(left_out(&runs, performed.len()));
    session.screen.print_gaps(findings.failures.len())?;
    conclude(&findings, &check.outputs.forms, registry)?;
    session.screen.complain(&findings.failures)?;
    tell_kept(&session, &findings)?;
    Ok(findings.exit())
}

/// The failure of runs that are not performed, because somebody asked for an end before.
fn left_out(runs: &[&Run], performed: usize) -> Option<Failure> {
    let left: Vec<&str> = runs.iter().skip(performed).map(|run| run.name).collect();
    let text = || {
        format!(
            "it was asked to stop, so {} of {} runs were not performed: {}",
            left.len(),
            runs.len(),
            left.join(", ")
        )
    };
    (!left.is_empty()).then(|| Failure::new(Exit::Budget, text()))
}

/// Refuses what can only be said of one run.
fn refuse_several(check: &Check) -> Result<(), Trouble> {
    let of_one = [
        (check.trace.is_some(), "--trace writes the counterexample of one run"),
        (check.kept.checkpoint.is_some(), "--checkpoint keeps the search of one run"),
        (check.kept.resume.is_some(), "--resume goes on with one run"),
    ];
    match of_one.into_iter().find(|(asked, _)| *asked && check.names.len() != 1) {
        Some((_, what)) => {
            let text = format!("{what}; name one, and only one");
            Err(Trouble::Failure(Failure::new(Exit::Usage, text)))
        }
        None => Ok(()),
    }
}

fn kept(registry: &Registry, runs: &[&Run], kept: &Kept) -> Result<Option<Checkpoints>, Trouble> {
    let ([run], true) = (runs, kept.checkpoint.is_some() || kept.resume.is_some()) else { return Ok(None) };
    let path = kept.checkpoint.as_deref().map(examine_replaced).transpose()?;
    let subject = Subject::of(run, registry);
    Ok(Some(Checkpoints::new(subject, path, kept.checkpoint_every, kept.resume.as_deref())?))
}

/// Says on standard error where a run that was given up goes on.
fn tell_kept(session: &Session<'_>, findings: &Findings) -> Result<(), Trouble> {
    let Some(kept) = &session.kept else { return Ok(()) };
    let given_up = |certificate: &&Certificate| matches!(certificate.found, Some(Verdict::Unknown(_)));
    if let Some(certificate) = findings.certificates.iter().find(given_up)
        && let Some((path, states)) = kept.written()?
    {
        let (path, run, states) = (path.display(), &certificate.run, grouped(states));
        tell(format_args!(
            "wrote {path}, {states} states; `lockstep-check check {run} --resume {path}` goes on"
        ));
    }
    Ok(())
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
