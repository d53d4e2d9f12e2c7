//! The manifest `runs.toml`: what each run found when it was last recorded.
//!
//! Counts are exact and the same on any machine. One that moves means that the model, and so what is proved, has
//! changed: that is reviewed like code.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::outcome::Outcome;
use super::run::{Expect, Run};

const HEADER: &str = "# Written by `lockstep-check record`; the counts are exact. A change here is a change of what is proved.\n";

/// Why the manifest cannot be used.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// It is no such file.
    #[error(
        "{path} is not what is recorded of runs; correct it or write it anew with `lockstep-check record`: {source}"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<toml::de::Error>,
    },
    /// It cannot be read.
    #[error("cannot read {path}; write it with `lockstep-check record`: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
}

/// Recorded runs, in the order of the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// One entry a run.
    #[serde(default, rename = "run")]
    pub records: Vec<Record>,
}

/// What a run was to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordedExpect {
    /// That every property holds.
    Holds,
    /// A violation.
    Violates,
    /// That every property holds, and that some situation is never reached.
    Loses,
    /// That every property holds, in other states than under the shipped rules.
    Moves,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Name of the run.
    pub name: String,
    /// What it was to find, and found.
    pub expect: RecordedExpect,
    /// Fingerprint of the specification that was checked.
    pub spec: String,
    /// The violated property, the situation that is never reached, or the run of the shipped rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
    /// Distinct states.
    pub unique: u64,
    /// Steps between them.
    pub transitions: u64,
    /// Greatest distance from the initial states.
    pub depth: u32,
    /// Steps of the shortest counterexample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<u32>,
}

impl Record {
    /// The record of a run that found what it was to find.
    #[must_use]
    pub fn of(run: &Run, outcome: &Outcome, spec: &str) -> Self {
        let (expect, property) = expectation(run.expect);
        let counts = outcome.counts;
        Self {
            name: run.name.to_owned(),
            expect,
            spec: spec.to_owned(),
            property: property.map(str::to_owned),
            unique: counts.unique,
            transitions: counts.transitions,
            depth: counts.depth,
            path: outcome.path(),
        }
    }

    /// Whether the record is of a run with this expectation.
    #[must_use]
    pub fn is_for(&self, expect: Expect) -> bool {
        (self.expect, self.property.as_deref()) == expectation(expect)
    }
}

/// An expectation as it is recorded: its kind, and the property, situation or run that it names.
#[must_use]
pub const fn expectation(expect: Expect) -> (RecordedExpect, Option<&'static str>) {
    match expect {
        Expect::Holds => (RecordedExpect::Holds, None),
        Expect::Violates(property) => (RecordedExpect::Violates, Some(property)),
        Expect::Loses(situation) => (RecordedExpect::Loses, Some(situation)),
        Expect::Moves(shipped) => (RecordedExpect::Moves, Some(shipped)),
    }
}

impl Manifest {
    /// Reads the manifest at `path`.
    ///
    /// # Errors
    /// [`ManifestError`] when it cannot be read or understood.
    pub fn read(path: &Path) -> Result<Self, ManifestError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ManifestError::Unreadable { path: path.to_owned(), source })?;
        let malformed = |source| ManifestError::Malformed { path: path.to_owned(), source: Box::new(source) };
        toml::from_str(&text).map_err(malformed)
    }

    /// The record of the run called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.name == name)
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Only if a number exceeds what TOML can hold (2⁶³).
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("{HEADER}\n{}", toml::to_string(self)?))
    }
}
