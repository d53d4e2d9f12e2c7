//! `check`: performs runs, judges them, and leaves behind what other tools read.

use std::path::{Path, PathBuf};

use crate::ci::{Certificate, Findings};
use crate::explain::Trace;
use crate::report::grouped;
use crate::runs::{Exit, Failure, Manifest, Performed, Places, Registry, Run, Tier, Verdict};

use super::{Session, Trouble, perform};
use crate::cli::checkpoint::{Checkpoints, Subject};
use crate::cli::options::{Effort, Kept, Outputs, Part};
use crate::cli::outputs::{conclude, write};
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
    let listed = listed(registry, &check.names, check.tier)?;
    let manifest = Manifest::read(&places.manifest)?;
    let runs = dealt(listed, check.part, &manifest)?;
    let session = Session {
        settings: check.effort.into(),
        memory: check.effort.memory_limit()?,
        recorded: Some(&manifest),
        judged: true,
        display: if check.json { Display::Nothing } else { Display::of_stderr() },
        screen: Screen::new(registry, check.json, check.show),
        kept: kept(registry, &runs, &check.kept)?,
        stop: if check.kept.checkpoint.is_some() { Stop::on_signals()? } else { Stop::default() },
    };
    let mut findings = Findings::default();
    perform(&runs, &session, &mut |performed| {
        let certificate = Certificate::of(performed, registry, manifest.find(performed.run.name));
        check.outputs.leave(&certificate, performed.story(), registry)?;
        findings.certificates.push(certificate);
        check.trace.as_ref().map_or(Ok(()), |path| write_trace(path, performed, registry))
    })?;
    if check.names.is_empty() {
        findings.failures.extend(registry.validate(&manifest).err());
    }
    conclude(&findings, &check.outputs.forms, registry)?;
    session.screen.complain(&findings.failures)?;
    tell_kept(&session, &findings)?;
    Ok(findings.exit())
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
    let (subject, path) = (Subject::of(run, registry), kept.checkpoint.clone());
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

/// Writes the counterexample of a run, and says what became of it on standard error, where it disturbs no JSON.
fn write_trace(path: &Path, performed: &Performed<'_>, registry: &Registry) -> Result<(), Trouble> {
    let (shown, name) = (path.display(), performed.run.name);
    let Some(trace) = Trace::of(performed, registry) else {
        let finding = performed.finding();
        tell(format_args!("{name}: {finding}, so there is no counterexample; {shown} is not written"));
        return Ok(());
    };
    write(path, &trace.to_json().map_err(std::io::Error::from)?)?;
    tell(format_args!(
        "wrote {shown}; `lockstep-check explain {shown}` shows it, `lockstep-check replay {shown}` repeats it"
    ));
    Ok(())
}
