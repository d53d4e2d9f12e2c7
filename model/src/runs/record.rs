//! Recording: the manifest, CHECKS.md and `proved.json`, written or compared.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::checks::checks_text;
use super::listing::Registry;
use super::manifest::{Manifest, Record, Stated};
use super::proved::Proved;
use super::run::Run;
use super::session::Performed;
use crate::coverage::Coverage;

/// Why the files cannot be written.
#[derive(Debug, Error)]
pub enum RecordError {
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A number does not fit into the manifest.
    #[error("a count does not fit into runs.toml: {0}")]
    Manifest(#[from] toml::ser::Error),
    /// The classes cannot be written as JSON.
    #[error("proved.json cannot be written: {0}")]
    Proved(#[from] serde_json::Error),
}

/// Where the recorded files are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The manifest of runs.
    pub manifest: PathBuf,
    /// Folder of CHECKS.md and `proved.json`.
    pub root: PathBuf,
}

impl Places {
    /// The file of the levels of runs, beside the manifest.
    #[must_use]
    pub fn levels(&self) -> PathBuf {
        self.manifest.with_file_name("levels.toml")
    }
}

impl Default for Places {
    /// In the workspace that this crate was built in.
    fn default() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self { manifest: package.join("runs.toml"), root: package.parent().unwrap_or(package).to_owned() }
    }
}

/// The manifest after `performed`. Runs that were not performed keep their record if they still expect the same; if
/// it is of an earlier specification it counts for nothing in `proved.json`.
#[must_use]
pub fn recorded(registry: &Registry, old: &Manifest, performed: &[Performed<'_>]) -> Manifest {
    let anew = |run: &Run| {
        let found = performed.iter().find(|performed| performed.run.name == run.name)?;
        found.outcome.as_ref().map(|outcome| Record::of(run, outcome, &registry.spec_fingerprint))
    };
    let kept = |run: &Run| {
        let mut record = old.find(run.name).filter(|record| record.is_for(run.expect))?.clone();
        // Of a run under an earlier specification nobody knows any more what it was.
        if record.spec == registry.spec_fingerprint {
            record.stated.get_or_insert_with(|| Stated::of(run));
        }
        Some(record)
    };
    Manifest { records: registry.runs.iter().filter_map(|run| anew(run).or_else(|| kept(run))).collect() }
}

/// The files with the texts they should have.
///
/// # Errors
/// [`RecordError`] when a text cannot be made.
pub fn files(
    registry: &Registry,
    manifest: &Manifest,
    coverage: &Coverage,
    places: &Places,
) -> Result<Vec<(PathBuf, String)>, RecordError> {
    Ok(vec![
        (places.manifest.clone(), manifest.to_text()?),
        (places.root.join("CHECKS.md"), checks_text(registry, manifest, coverage)),
        (places.root.join("proved.json"), Proved::new(registry, manifest).to_text()?),
    ])
}

/// Writes the files whose text differs and returns their paths.
///
/// # Errors
/// [`RecordError::Unwritable`] for the first that cannot be written.
pub fn write(files: &[(PathBuf, String)]) -> Result<Vec<&Path>, RecordError> {
    let stale = stale(files);
    for (path, text) in files.iter().filter(|(path, _)| stale.contains(&path.as_path())) {
        fs::write(path, text).map_err(|source| RecordError::Unwritable { path: path.clone(), source })?;
    }
    Ok(stale)
}

/// The files whose text differs, or that are not there.
#[must_use]
pub fn stale(files: &[(PathBuf, String)]) -> Vec<&Path> {
    let differs = |(path, text): &&(PathBuf, String)| fs::read_to_string(path).ok().as_ref() != Some(text);
    files.iter().filter(differs).map(|(path, _)| path.as_path()).collect()
}
