//! Dealing runs to several machines.
//!
//! Runs are dealt by their recorded number of states, the largest first, each to the machine that has least. The deal depends on the
//! list and the manifest alone, so that machines need not talk.

use std::cmp::Reverse;
use std::str::FromStr;

use thiserror::Error;

use crate::runs::{Manifest, Run};

/// Why a shard cannot be told.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ShardError {
    /// A variable of the environment is no number.
    #[error("{variable} is `{value}`, and must be a number to shard by")]
    Environment {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The environment tells the index of this machine, but not how many there are.
    #[error(
        "the environment does not say how many shards there are; write `--shard auto/N`, with the job's number of tasks"
    )]
    HowMany,
    /// It is not of the form `K/N`.
    #[error("`{0}` is no shard: write K/N with 1 <= K <= N, such as 2/5, or auto, or auto/N")]
    Malformed(String),
    /// The environment does not tell which one this machine makes.
    #[error(
        "nothing says which shard this machine makes: set SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX, or write `--shard K/N`"
    )]
    Nothing,
}

/// One of several parts of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 1.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

/// A part as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// As the environment says; the number of parts may be given.
    Auto(Option<usize>),
    /// This one.
    This(Shard),
}

impl Shard {
    /// The part `index` of `count`, from 1; `None` if there is no such part.
    #[must_use]
    pub fn new(index: usize, count: usize) -> Option<Self> {
        (1..=count).contains(&index).then_some(Self { index, count })
    }

    /// The runs of this part, in the order in which they are listed.
    #[must_use]
    pub fn deal<'a>(self, runs: &[&'a Run], manifest: &Manifest) -> Vec<&'a Run> {
        let owners = owners(runs, manifest, self.count);
        runs.iter().zip(owners).filter(|(_, owner)| owner + 1 == self.index).map(|(run, _)| *run).collect()
    }
}

/// The part, from 0, that makes each run.
fn owners(runs: &[&Run], manifest: &Manifest, count: usize) -> Vec<usize> {
    let sizes = sizes(runs, manifest);
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|index| (Reverse(sizes[*index]), runs[*index].name));
    let mut loads = vec![0u64; count];
    let mut owners = vec![0; runs.len()];
    for index in order {
        let least = (0..count).min_by_key(|part| loads[*part]).unwrap_or(0);
        loads[least] += sizes[index];
        owners[index] = least;
    }
    owners
}

/// Recorded states of each run; one without record counts as the largest that has one, and each at least as a little.
fn sizes(runs: &[&Run], manifest: &Manifest) -> Vec<u64> {
    let recorded = |run: &&Run| manifest.find(run.name).map(|record| record.unique);
    let largest = runs.iter().filter_map(recorded).max().unwrap_or(0);
    runs.iter().map(|run| recorded(run).unwrap_or(largest) + LEAST).collect()
}

/// States that take as long as starting a run.
const LEAST: u64 = 1_000;

impl FromStr for Asked {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let malformed = || ShardError::Malformed(text.to_owned());
        let number = |text: &str| text.parse::<usize>().map_err(|_| malformed());
        match text.split_once('/') {
            None if text == "auto" => Ok(Self::Auto(None)),
            None => Err(malformed()),
            Some(("auto", count)) => Ok(Self::Auto(Some(number(count)?))),
            Some((index, count)) => {
                Shard::new(number(index)?, number(count)?).map(Self::This).ok_or_else(malformed)
            }
        }
    }
}

impl Asked {
    /// The part that is meant, where `environment` looks variables up.
    ///
    /// # Errors
    /// [`ShardError`] when the environment does not tell.
    pub fn resolve(self, environment: &dyn Fn(&'static str) -> Option<String>) -> Result<Shard, ShardError> {
        match self {
            Self::This(shard) => Ok(shard),
            Self::Auto(count) => automatic(count, environment),
        }
    }
}

fn automatic(
    count: Option<usize>,
    environment: &dyn Fn(&'static str) -> Option<String>,
) -> Result<Shard, ShardError> {
    let number = |variable: &'static str| {
        let parse =
            |value: String| value.parse::<usize>().map_err(|_| ShardError::Environment { variable, value });
        environment(variable).map(parse).transpose()
    };
    let (from_zero, said) = if let Some(id) = number("SLURM_ARRAY_TASK_ID")? {
        let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
        let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
        (id.saturating_sub(first) / step, number("SLURM_ARRAY_TASK_COUNT")?)
    } else {
        (number("JOB_COMPLETION_INDEX")?.ok_or(ShardError::Nothing)?, None)
    };
    let count = count.or(said).ok_or(ShardError::HowMany)?;
    Shard::new(from_zero + 1, count)
        .ok_or_else(|| ShardError::Malformed(format!("{}/{count}", from_zero + 1)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::runs::registry;

    #[test]
    fn shard_deals_every_run_once_and_evenly() {
        let registry = registry();
        let manifest = Manifest::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("runs.toml")).unwrap();
        let runs: Vec<&Run> = registry.runs.iter().collect();
        let sizes = sizes(&runs, &manifest);
        let size = |run: &&Run| sizes[runs.iter().position(|other| other.name == run.name).unwrap()];
        let largest = *sizes.iter().max().unwrap();
        for count in [1, 2, 5, 400] {
            let parts: Vec<Vec<&Run>> =
                (1..=count).map(|index| Shard { index, count }.deal(&runs, &manifest)).collect();
            let mut names: Vec<&str> = parts.iter().flatten().map(|run| run.name).collect();
            let mut all: Vec<&str> = runs.iter().map(|run| run.name).collect();
            names.sort_unstable();
            all.sort_unstable();
            assert_eq!(names, all);
            let loads = parts.iter().map(|part| part.iter().map(size).sum::<u64>());
            let (least, most) = (loads.clone().min().unwrap(), loads.max().unwrap());
            assert!(most - least <= largest, "{least} to {most} in {count} parts");
        }
    }

    #[test]
    fn shard_is_read_from_text() {
        let this = |index, count| Ok(Asked::This(Shard { index, count }));
        assert_eq!(["2/5", "1/1"].map(str::parse), [this(2, 5), this(1, 1)]);
        assert_eq!(["auto", "auto/3"].map(str::parse), [Ok(Asked::Auto(None)), Ok(Asked::Auto(Some(3)))]);
        assert!(["0/2", "3/2", "x", "1/", "/2", "auto/x"].iter().all(|text| text.parse::<Asked>().is_err()));
    }
}
