//! Writing what runs leave behind: certificates, artefacts, and the forms that other tools read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::ci::{Certificate, Findings, annotations, junit, sarif, step_summary};
use crate::explain::{Format, Trace, render};
use crate::report::{Drawing, Story, draw};
use crate::runs::{Performed, Registry};

use crate::cli::commands::Trouble;
use crate::cli::files::{TargetError, examine_folder, examine_replaced, examine_text, replace, write_text};
use crate::cli::options::{Forms, Outputs};
use crate::screen::tell;

/// The program that goes through runs, as a person calls it.
#[derive(Clone, Copy)]
pub(crate) enum Program {
    /// `lockstep-check`.
    Checker,
    /// That of somebody's own protocol.
    Protocol,
}

impl Program {
    /// The command that takes the steps of a trace file again.
    fn replays(self, path: &Path) -> String {
        match self {
            Self::Checker => format!("lockstep-check replay {}", path.display()),
            Self::Protocol => format!("{} --replay {}", own_name(), path.display()),
        }
    }

    /// The command that goes on with a run from a checkpoint.
    pub(crate) fn resumes(self, run: &str, path: &Path) -> String {
        match self {
            Self::Checker => format!("lockstep-check check {run} --resume {}", path.display()),
            Self::Protocol => format!("{} {run} --resume {}", own_name(), path.display()),
        }
    }
}

/// How this program was called.
fn own_name() -> String {
    std::env::args().next().unwrap_or_else(|| "the program".to_owned())
}

const DRAWN: Drawing = Drawing { width: 110, full: false };

impl Forms {
    /// Examines the places of all forms, before anything costs time.
    pub(crate) fn examine(&self) -> Result<(), TargetError> {
        let places = [self.junit.clone(), self.sarif.clone(), summary_path()];
        places.iter().flatten().try_for_each(|path| examine_text(path))
    }
}

impl Outputs {
    /// Examines the places of all that will be left behind, before anything costs time.
    pub(crate) fn examine(&self) -> Result<(), TargetError> {
        let folders = [&self.certificates, &self.artifacts];
        folders.into_iter().flatten().try_for_each(|folder| examine_folder(folder))?;
        self.forms.examine()
    }

    /// Writes what one run leaves behind.
    pub(crate) fn leave(
        &self,
        certificate: &Certificate,
        performed: &Performed<'_>,
        registry: &Registry,
    ) -> Result<(), Trouble> {
        let text = format!("{}\n", serde_json::to_string_pretty(certificate).map_err(io::Error::from)?);
        let name = format!("{}.json", certificate.run);
        if let Some(folder) = &self.certificates {
            put(folder, &name, &text)?;
        }
        let Some(folder) = self.artifacts.as_ref().filter(|_| !certificate.ok) else { return Ok(()) };
        put(folder, &name, &text)?;
        let run = &certificate.run;
        put(folder, &format!("{run}.txt"), &told(certificate, performed.story(), registry))?;
        let Some(trace) = Trace::of(performed, registry) else { return Ok(()) };
        for (extension, format) in [("trace.json", Format::Json), ("svg", Format::Svg)] {
            let drawn = render(&trace, format, DRAWN).map_err(io::Error::from)?;
            put(folder, &format!("{run}.{extension}"), &drawn)?;
        }
        Ok(())
    }
}

/// What went wrong, for a person.
fn told(certificate: &Certificate, story: Option<(&str, &Story)>, registry: &Registry) -> String {
    let failure = certificate.failure.as_deref().unwrap_or("fails");
    let head = format!("{} {failure}\n{}\n", certificate.run, certificate.parameters);
    let drawn = story.map(|(property, story)| draw(story, (property, registry.sentence(property)), DRAWN));
    let drawn = drawn.map_or_else(String::new, |drawn| anstream::adapter::strip_str(&drawn).to_string());
    format!("{head}\n{drawn}")
}

/// Writes the forms of all runs together, and tells GitHub if it asks for that.
pub(crate) fn conclude(findings: &Findings, forms: &Forms, registry: &Registry) -> Result<(), Trouble> {
    if let Some(path) = &forms.junit {
        write(path, &junit(findings))?;
    }
    if let Some(path) = &forms.sarif {
        write(path, &sarif(findings, registry))?;
    }
    if std::env::var("GITHUB_ACTIONS").is_ok_and(|said| said == "true") {
        let mut out = io::stderr().lock();
        annotations(findings).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    summary_path().map_or(Ok(()), |path| append(&path, &step_summary(findings)))
}

/// Writes a file whole or not at all: one that is half-written must not be read by `merge`.
fn put(folder: &Path, name: &str, text: &str) -> Result<(), Trouble> {
    let place = examine_replaced(&folder.join(name))?;
    replace(&place, |path| fs::write(path, text))
        .map_err(|source| Trouble::Unwritable { path: folder.join(name), source })
}

/// Writes a file, and the folders above it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Trouble> {
    write_text(path, text).map_err(|source| Trouble::Unwritable { path: path.to_owned(), source })
}

/// Writes the counterexample of `run`, which found what `finding` says, and tells what became of it on standard error, where it disturbs
/// no JSON.
pub(crate) fn write_trace(
    (path, program): (&Path, Program),
    trace: Option<&Trace>,
    (run, finding): (&str, &str),
) -> Result<(), Trouble> {
    let shown = path.display();
    let Some(trace) = trace else {
        tell(format_args!("{run}: {finding}, so there is no counterexample; {shown} is not written"));
        return Ok(());
    };
    write(path, &trace.to_json().map_err(io::Error::from)?)?;
    let replays = program.replays(path);
    tell(format_args!("wrote {shown}; `lockstep-check explain {shown}` shows it, `{replays}` repeats it"));
    Ok(())
}

/// The file to which GitHub wants a summary added.
fn summary_path() -> Option<PathBuf> {
    std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn append(path: &Path, text: &str) -> Result<(), Trouble> {
    let unwritable = |source| Trouble::Unwritable { path: path.to_owned(), source };
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(unwritable)?;
    file.write_all(text.as_bytes()).map_err(unwritable)
}
