//! The manifest `runs.toml`: what each run found when it was last recorded.
//!
//! Counts are exact and the same on any machine. One that moves means that the model, and so what is proved, has
//! changed: that is reviewed like code.

mod file;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::outcome::{Exit, Outcome};
use super::run::{Expect, Run, Tier};

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
    /// Two entries are of one run.
    #[error(
        "{path} has two entries of `{name}`; remove one of them, or write it anew with `lockstep-check record`"
    )]
    Twice {
        /// The file.
        path: PathBuf,
        /// Name of the run.
        name: String,
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

impl ManifestError {
    /// The exit code it asks for.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Twice { .. } => Exit::Usage,
            Self::Malformed { .. } | Self::Unreadable { .. } => Exit::Internal,
        }
    }
}

/// Recorded runs, in the order of the registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// One entry a run.
    pub records: Vec<Record>,
}

/// What runs are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// What was recorded of them.
    pub manifest: &'a Manifest,
    /// Fingerprint of the specification that is checked now.
    pub spec: &'a str,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the run.
    pub name: String,
    /// What it was to find, and found.
    pub expect: RecordedExpect,
    /// Fingerprint of the specification that was checked.
    pub spec: String,
    /// The violated property, the situation that is never reached, or the run of the shipped rules.
    pub property: Option<String>,
    /// Distinct states.
    pub unique: u64,
    /// Steps between them.
    pub transitions: u64,
    /// Greatest distance from the initial states.
    pub depth: u32,
    /// Steps of the shortest counterexample.
    pub path: Option<u32>,
    /// What the run was; `None` in files of before it was recorded.
    pub stated: Option<Stated>,
}

/// What a run was when it was recorded, as its listing and its model say it, whatever it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// How often it was made.
    pub tier: Tier,
    /// Its bounds and reductions, as text.
    pub parameters: String,
    /// What it may cost.
    pub budget: String,
    /// Ids of the properties that were checked.
    pub properties: Vec<String>,
    /// Witnesses and kinds of action that had to be reached.
    pub witnesses: Vec<String>,
}

impl Stated {
    /// What `run` is.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self {
            tier: run.tier,
            parameters: run.params.clone(),
            budget: budget_text(run.tier),
            properties: run.model.properties().into_iter().map(str::to_owned).collect(),
            witnesses: run.model.witnesses(),
        }
    }
}

/// What a run may cost: no run has a budget of its own, so it is its tier's.
fn budget_text(tier: Tier) -> String {
    let tiers = match tier {
        Tier::Quick => "seconds",
        Tier::Pr => "minutes",
        Tier::Nightly => "minutes, and 4 GiB",
    };
    format!("the tier's: {tiers}")
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
            stated: Some(Stated::of(run)),
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
        let form: file::Form = toml::from_str(&text).map_err(malformed)?;
        let manifest = Self::from(form);
        match manifest.twice() {
            Some(name) => Err(ManifestError::Twice { path: path.to_owned(), name: name.to_owned() }),
            None => Ok(manifest),
        }
    }

    /// The first name that two records have.
    fn twice(&self) -> Option<&str> {
        let mut names = BTreeSet::new();
        self.records.iter().map(|record| record.name.as_str()).find(|name| !names.insert(*name))
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
        Ok(format!("{HEADER}\n{}", toml::to_string_pretty(&file::Form::from(self))?))
    }
}
