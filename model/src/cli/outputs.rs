//! Writing what runs leave behind: certificates, artefacts, and the forms that other tools read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::ci::{Certificate, Findings, annotations, junit, sarif, step_summary};
use crate::report::{Drawing, Story, draw};
use crate::runs::Registry;

use crate::cli::commands::Trouble;
use crate::cli::options::{Forms, Outputs};

const DRAWN: Drawing = Drawing { width: 110, full: false };

impl Outputs {
    /// Writes what one run leaves behind; `story` is its property and counterexample.
    pub(crate) fn leave(
        &self,
        certificate: &Certificate,
        story: Option<(&str, &Story)>,
        registry: &Registry,
    ) -> Result<(), Trouble> {
        let text = format!("{}\n", serde_json::to_string_pretty(certificate).map_err(io::Error::from)?);
        let name = format!("{}.json", certificate.run);
        if let Some(folder) = &self.certificates {
            put(folder, &name, &text)?;
        }
        let Some(folder) = self.artifacts.as_ref().filter(|_| !certificate.ok) else { return Ok(()) };
        put(folder, &name, &text)?;
        put(folder, &format!("{}.txt", certificate.run), &told(certificate, story, registry))
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
    match std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
        Some(path) => append(Path::new(&path), &step_summary(findings)),
        None => Ok(()),
    }
}

/// Writes a file whole or not at all: one that is half-written must not be read by `merge`.
fn put(folder: &Path, name: &str, text: &str) -> Result<(), Trouble> {
    let unwritable = |source| Trouble::Unwritable { path: folder.join(name), source };
    fs::create_dir_all(folder).map_err(unwritable)?;
    let unfinished = folder.join(format!(".{name}.part"));
    fs::write(&unfinished, text).map_err(unwritable)?;
    fs::rename(&unfinished, folder.join(name)).map_err(unwritable)
}

/// Writes a file, and the folders above it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Trouble> {
    let unwritable = |source| Trouble::Unwritable { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(unwritable)?;
    }
    fs::write(path, text).map_err(unwritable)
}

fn append(path: &Path, text: &str) -> Result<(), Trouble> {
    let unwritable = |source| Trouble::Unwritable { path: path.to_owned(), source };
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(unwritable)?;
    file.write_all(text.as_bytes()).map_err(unwritable)
}
