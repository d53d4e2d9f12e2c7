//! `merge`: one report from the certificates of several machines.

use std::fs;
use std::path::{Path, PathBuf};

use crate::ci::{Certificate, Source, merge as merged};
use crate::runs::{Exit, Manifest, Places, Registry, Tier};

use super::{Trouble, check};
use crate::cli::options::Forms;
use crate::cli::outputs::conclude;
use crate::screen::Screen;

/// What to merge and how.
pub(crate) struct Merge {
    /// Files, and folders of files.
    pub(crate) paths: Vec<PathBuf>,
    /// The runs that must be there; all of the tier if there are none.
    pub(crate) names: Vec<String>,
    /// The tier.
    pub(crate) tier: Tier,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// What to leave behind.
    pub(crate) forms: Forms,
}

/// Merges certificates and judges the whole.
pub(crate) fn merge(registry: &Registry, places: &Places, merge: &Merge) -> Result<Exit, Trouble> {
    merge.forms.examine()?;
    let runs = check::listed(registry, &merge.names, merge.tier)?;
    let manifest = Manifest::read(&places.manifest)?;
    let mut sources = Vec::new();
    for path in &merge.paths {
        collect(path, &mut sources)?;
    }
    let findings = merged(sources, &runs, registry, &manifest);
    let screen = Screen::new(registry, merge.json, false);
    findings.certificates.iter().try_for_each(|certificate| screen.show_certificate(certificate))?;
    screen.sum_up_certificates(&findings)?;
    conclude(&findings, &merge.forms, registry)?;
    screen.complain(&findings.failures)?;
    Ok(findings.exit())
}

/// The certificates of a file, or of the `.json` files of a folder, in the order of their names.
fn collect(path: &Path, sources: &mut Vec<Source>) -> Result<(), Trouble> {
    let unreadable = |source| Trouble::Unreadable { path: path.to_owned(), source };
    if !path.is_dir() {
        return read(path, sources);
    }
    let entries = fs::read_dir(path).map_err(unreadable)?;
    let files: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files.map_err(unreadable)?;
    files.sort();
    for file in files {
        if file.is_dir() {
            collect(&file, sources)?;
        } else if is_certificate(&file) {
            read(&file, sources)?;
        }
    }
    Ok(())
}

/// Whether a file of a folder is a certificate by its name, and neither unfinished nor the trace that `--artifacts` puts beside it.
fn is_certificate(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.ends_with(".json") && !name.ends_with(".trace.json") && !name.starts_with('.')
}

/// A file has one certificate, or one a line as `check --json` prints them.
fn read(path: &Path, sources: &mut Vec<Source>) -> Result<(), Trouble> {
    let text =
        fs::read_to_string(path).map_err(|source| Trouble::Unreadable { path: path.to_owned(), source })?;
    for certificate in serde_json::Deserializer::from_str(&text).into_iter::<Certificate>() {
        let certificate =
            certificate.map_err(|source| Trouble::NoCertificate { path: path.to_owned(), source })?;
        sources.push((path.display().to_string(), certificate));
    }
    Ok(())
}
