//! Runs as a gate: they are performed, judged, and leave behind what other tools read. `check` goes through those of a
//! registry, the program of somebody's own protocol through its own.

use crate::ci::{Certificate, Findings};
use crate::explain::Trace;
use crate::report::grouped;
use crate::runs::{Exit, Failure, Manifest, Recorded, Registry, Run, Verdict};

use super::{Session, Trouble, perform};
use crate::cli::checkpoint::{Checkpoints, Subject};
use crate::cli::files::{examine_replaced, examine_text};
use crate::cli::options::{Gate, Kept};
use crate::cli::outputs::{Program, conclude, write_trace};
use crate::cli::watch::{Display, Stop};
use crate::screen::{Screen, tell};

/// The runs, and what is known of them before.
pub(crate) struct Subjects<'a> {
    /// Where they are from.
    pub(crate) registry: &'a Registry,
    /// The runs.
    pub(crate) runs: Vec<&'a Run>,
    /// What is recorded of them.
    pub(crate) manifest: Option<&'a Manifest>,
    /// What is wrong beside them.
    pub(crate) gap: Option<Failure>,
    /// The program that goes through them.
    pub(crate) program: Program,
}

impl Gate {
    /// Examines the places of all that will be left behind, before anything costs time.
    pub(crate) fn examine(&self) -> Result<(), Trouble> {
        self.outputs.examine()?;
        Ok(self.trace.as_deref().map_or(Ok(()), examine_text)?)
    }

    /// Performs runs, judges them, and leaves behind what was asked for.
    pub(crate) fn go_through(&self, subjects: &Subjects<'_>) -> Result<Exit, Trouble> {
        let Subjects { registry, runs, manifest, gap, program } = subjects;
        self.refuse_several(runs.len())?;
        let recorded = |manifest| Recorded { manifest, spec: &registry.spec_fingerprint };
        let session = Session {
            settings: self.effort.into(),
            memory: self.effort.memory_limit()?,
            recorded: *manifest,
            judged: manifest.map(recorded),
            display: Display::unless(self.json),
            screen: Screen::new(registry, self.json, self.show),
            kept: kept(registry, runs, &self.kept)?,
            stop: Stop::on_signals()?,
        };
        let mut findings = Findings::default();
        let performed = perform(runs, &session, &mut |performed| {
            let recorded = manifest.and_then(|manifest| manifest.find(performed.run.name));
            let certificate = Certificate::of(performed, registry, recorded);
            self.outputs.leave(&certificate, performed, registry)?;
            findings.certificates.push(certificate);
            let Some(path) = &self.trace else { return Ok(()) };
            let trace = Trace::of(performed, registry);
            write_trace((path, *program), trace.as_ref(), (performed.run.name, &performed.finding()))
        })?;
        findings.failures.extend(gap.clone());
        findings.failures.extend(left_out(runs, performed.len()));
        session.screen.print_gaps(findings.failures.len())?;
        conclude(&findings, &self.outputs.forms, registry)?;
        session.screen.complain(&findings.failures)?;
        tell_kept(&session, &findings, *program)?;
        Ok(findings.exit())
    }

    /// Refuses what can only be said of one run.
    fn refuse_several(&self, runs: usize) -> Result<(), Trouble> {
        let of_one = [
            (self.trace.is_some(), "--trace writes the counterexample of one run"),
            (self.kept.checkpoint.is_some(), "--checkpoint keeps the search of one run"),
            (self.kept.resume.is_some(), "--resume goes on with one run"),
        ];
        match of_one.into_iter().find(|(asked, _)| *asked && runs != 1) {
            Some((_, what)) => {
                let text = format!("{what}; name one, and only one");
                Err(Trouble::Failure(Failure::new(Exit::Usage, text)))
            }
            None => Ok(()),
        }
    }
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

fn kept(registry: &Registry, runs: &[&Run], kept: &Kept) -> Result<Option<Checkpoints>, Trouble> {
    let ([run], true) = (runs, kept.checkpoint.is_some() || kept.resume.is_some()) else { return Ok(None) };
    let path = kept.checkpoint.as_deref().map(examine_replaced).transpose()?;
    let subject = Subject::of(run, registry);
    Ok(Some(Checkpoints::new(subject, path, kept.checkpoint_every, kept.resume.as_deref())?))
}

/// Says on standard error where a run that was given up goes on.
fn tell_kept(session: &Session<'_>, findings: &Findings, program: Program) -> Result<(), Trouble> {
    let Some(kept) = &session.kept else { return Ok(()) };
    let given_up = |certificate: &&Certificate| matches!(certificate.found, Some(Verdict::Unknown(_)));
    if let Some(certificate) = findings.certificates.iter().find(given_up)
        && let Some((path, states)) = kept.written()?
    {
        tell(format_args!(
            "wrote {}, {} states; `{}` goes on",
            path.display(),
            grouped(states),
            program.resumes(&certificate.run, path)
        ));
    }
    Ok(())
}
