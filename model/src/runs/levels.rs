//! The file `levels.toml`: how many states each recorded run that holds has at each distance from its start; and what that says of a run
//! of which only the beginning is known.
//!
//! The line through a run's own levels ([`forecast`]) is the start. How wrong it is has been seen in the recorded runs: each of them once
//! looked as the new one looks now, that is, the line went as far beyond what was seen. What they still had before them is what the new one
//! is likely to have; runs of its family say more than others. A run and its twin in the other loop are never asked about themselves, neither
//! here nor where it is measured how often this is right.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::listing::Registry;
use super::manifest::ManifestError;
use super::run::Expect;
use super::session::Performed;
use crate::explore::forecast;

const HEADER: &str = "# Written by `lockstep-check record`: how many states each run that holds has at each distance from its start. `estimate` learns from it.\n";

/// Runs with fewer states teach nothing about large ones.
const FEWEST_STATES: u64 = 5_000;
/// Parts of its states after which a recorded run is looked at, in twentieths: all but its end.
const TWENTIETHS: std::ops::Range<u64> = 1..20;
/// How far moments count that are not quite alike: the standard deviation of the logarithm of how far the line goes.
const ALIKE: f64 = 0.15;
/// What a run of another family counts, where one of the same family counts 1.
const OTHER_FAMILY: f64 = 0.1;
/// What moments must count together before they say anything.
const FEWEST_ALIKE: f64 = 1.0;
/// Between these quantiles of what recorded runs had before them, and how often the truth lies there.
const QUANTILES: [f64; 3] = [0.1, 0.5, 0.9];

/// Sizes of the levels of runs, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Levels(BTreeMap<String, Vec<u64>>);

/// What is likely of the number of states of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// One run in ten has fewer.
    pub least: u64,
    /// Half of the runs have more.
    pub likely: u64,
    /// One run in ten has more.
    pub most: u64,
}

/// A recorded run as it looked when a part of it was seen.
#[derive(Clone, Copy, Debug)]
struct Moment<'a> {
    run: &'a str,
    /// Logarithm of how many times what was seen the line promised.
    promised: f64,
    /// Logarithm of how many times what was seen there was.
    came: f64,
}

impl Levels {
    /// Reads the file at `path`; nothing is known where there is none.
    ///
    /// # Errors
    /// [`ManifestError`] when it cannot be read or understood.
    pub fn read(path: &Path) -> Result<Self, ManifestError> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path)
            .map_err(|source| ManifestError::Unreadable { path: path.to_owned(), source })?;
        let malformed = |source| ManifestError::Malformed { path: path.to_owned(), source: Box::new(source) };
        toml::from_str(&text).map_err(malformed)
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Only if a number exceeds what TOML can hold (2⁶³).
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("{HEADER}\n{}", toml::to_string(self)?))
    }

    /// The levels after `performed`; runs that were not performed keep theirs.
    #[must_use]
    pub fn with(mut self, registry: &Registry, performed: &[Performed<'_>]) -> Self {
        self.0.retain(|name, _| registry.runs.iter().any(|run| run.name == name));
        for Performed { run, outcome, .. } in performed {
            let whole = outcome.as_ref().map(|outcome| &outcome.scope).filter(|scope| scope.exhausted);
            if let Some(scope) = whole.filter(|_| run.expect == Expect::Holds) {
                self.0.insert(run.name.to_owned(), scope.levels.clone());
            }
        }
        self
    }

    /// What is likely of the run called `name`, whose first levels are `seen`; `None` where the line does not fall, or no recorded run
    /// looked like this.
    #[must_use]
    pub fn foresee(&self, name: &str, seen: &[u64]) -> Option<Foreseen> {
        foresee(&self.moments(), name, seen)
    }

    /// The share of all states that the largest two neighbouring levels have, in the middle of the recorded runs of the family of `name`:
    /// the states that a search holds whole at the same time.
    #[must_use]
    pub fn widest(&self, name: &str) -> Option<f64> {
        let family = self.0.iter().filter(|(other, _)| family(other) == family(name));
        let mut shares: Vec<f64> =
            family.map(|(_, levels)| ratio(widest_of(levels), levels.iter().sum())).collect();
        shares.sort_by(f64::total_cmp);
        shares.get(shares.len() / 2).copied()
    }

    /// The moments of the recorded runs, by how much came.
    fn moments(&self) -> Vec<Moment<'_>> {
        let large = self.0.iter().filter(|(_, levels)| levels.iter().sum::<u64>() >= FEWEST_STATES);
        let mut moments: Vec<Moment<'_>> = large.flat_map(|(run, levels)| moments_of(run, levels)).collect();
        moments.sort_by(|left, right| left.came.total_cmp(&right.came));
        moments
    }
}

/// The states of the largest two neighbouring levels.
#[must_use]
pub fn widest_of(levels: &[u64]) -> u64 {
    levels.windows(2).map(|pair| pair.iter().sum()).max().unwrap_or(0)
}

fn moments_of<'a>(run: &'a str, levels: &'a [u64]) -> impl Iterator<Item = Moment<'a>> {
    let total: u64 = levels.iter().sum();
    TWENTIETHS.filter_map(move |part| {
        let beginning = beginning(levels, total * part / TWENTIETHS.end);
        let (promised, seen) = (forecast(beginning)?, beginning.iter().sum());
        Some(Moment { run, promised: ratio(promised, seen).ln(), came: ratio(total, seen).ln() })
    })
}

/// The first levels that together have `most` states at most.
fn beginning(levels: &[u64], most: u64) -> &[u64] {
    let sums = levels.iter().scan(0, |sum, level| {
        *sum += level;
        Some(*sum)
    });
    &levels[..sums.take_while(|sum| *sum <= most).count()]
}

fn foresee(moments: &[Moment<'_>], name: &str, levels: &[u64]) -> Option<Foreseen> {
    let seen: u64 = levels.iter().sum();
    let promised = ratio(forecast(levels)?, seen).ln();
    let others = moments.iter().filter(|moment| twin(moment.run) != twin(name));
    let weighed: Vec<(f64, f64)> =
        others.map(|moment| (moment.came, weight(moment, name, promised))).collect();
    let whole: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    if whole < FEWEST_ALIKE {
        return None;
    }
    let [least, likely, most] =
        QUANTILES.map(|share| times(seen, quantile(&weighed, share * whole).exp()).max(seen));
    Some(Foreseen { least, likely, most })
}

fn weight(moment: &Moment<'_>, name: &str, promised: f64) -> f64 {
    let apart = (moment.promised - promised) / ALIKE;
    let kinship = if family(moment.run) == family(name) { 1.0 } else { OTHER_FAMILY };
    kinship * (-apart * apart / 2.0).exp()
}

/// The value at which the weights, in the order of values, come to `wanted`.
fn quantile(weighed: &[(f64, f64)], wanted: f64) -> f64 {
    let mut sum = 0.0;
    let reached = weighed.iter().find(|(_, weight)| {
        sum += weight;
        sum >= wanted
    });
    reached.or(weighed.last()).map_or(0.0, |(value, _)| *value)
}

/// The kind of model, by which names begin.
fn family(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// What a run has in common with the same one in the other loop.
fn twin(name: &str) -> &str {
    name.strip_suffix("-normal").or_else(|| name.strip_suffix("-overlap")).unwrap_or(name)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn ratio(number: u64, of: u64) -> f64 {
    number as f64 / of.max(1) as f64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate; too large is as large as can be"
)]
fn times(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Levels {
        Levels::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("levels.toml")).unwrap()
    }

    /// Over the recorded runs: how often the truth lay in the range, and by which factor that was wide; in the mean over the moments of a run,
    /// and then over the runs. `known` are the runs that are asked about one of so many states.
    fn measured(recorded: &Levels, known: impl Fn(u64) -> Levels) -> (f64, f64) {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / ratio(values.len() as u64, 1);
        let of_run = |(name, levels): (&String, &Vec<u64>)| {
            let total: u64 = levels.iter().sum();
            let known = known(total);
            let moments = known.moments();
            let parts = TWENTIETHS.map(|part| beginning(levels, total * part / TWENTIETHS.end));
            let ranges: Vec<Foreseen> = parts.filter_map(|seen| foresee(&moments, name, seen)).collect();
            let held = |range: &Foreseen| f64::from(u8::from((range.least..=range.most).contains(&total)));
            let width = |range: &Foreseen| ratio(range.most, range.least).ln();
            let means = (
                mean(&ranges.iter().map(held).collect::<Vec<_>>()),
                mean(&ranges.iter().map(width).collect::<Vec<_>>()),
            );
            (total >= FEWEST_STATES && !ranges.is_empty()).then_some(means)
        };
        let (held, widths): (Vec<f64>, Vec<f64>) = recorded.0.iter().filter_map(of_run).unzip();
        assert!(held.len() > 60, "{} runs", held.len());
        (mean(&held), mean(&widths).exp())
    }

    /// The help of `estimate` says four in five, and a factor of four.
    #[test]
    fn levels_foresee_recorded_runs_as_often_as_is_said() {
        let recorded = recorded();
        let (held, width) = measured(&recorded, |_| recorded.clone());
        assert!((0.77..0.87).contains(&held), "the ranges held {held:.3} of the time");
        assert!(width < 4.2, "the ranges went from the least to {width:.2} times as much");
    }

    /// A run that is estimated is mostly larger than all that was ever recorded.
    #[test]
    fn levels_foresee_recorded_runs_from_smaller_ones_alone() {
        let recorded = recorded();
        let smaller = |most: u64| {
            let small = recorded.0.iter().filter(|(_, levels)| levels.iter().sum::<u64>() <= most);
            Levels(small.map(|(name, levels)| (name.clone(), levels.clone())).collect())
        };
        let (held, width) = measured(&recorded, smaller);
        assert!((0.75..0.87).contains(&held), "the ranges held {held:.3} of the time");
        assert!(width < 4.2, "the ranges went from the least to {width:.2} times as much");
    }

    #[test]
    fn levels_are_not_asked_about_themselves_or_their_twin() {
        let of = |name: &str| (name.to_owned(), (0..40u64).map(|level| 10 + 40 * level).collect::<Vec<_>>());
        let alone = Levels([of("toy-a-normal"), of("toy-a-overlap")].into());
        let (name, levels) = of("toy-a-normal");
        assert_eq!(alone.foresee(&name, beginning(&levels, 16_000)), None);
        let others = Levels([of("toy-a-normal"), of("toy-b-normal")].into());
        let total: u64 = levels.iter().sum();
        let foreseen = others.foresee(&name, beginning(&levels, total / 2)).unwrap();
        assert!(foreseen.least <= total && total <= foreseen.most, "{foreseen:?}");
    }

    #[test]
    fn levels_survive_their_file() {
        let levels = recorded();
        let text = levels.to_text().unwrap();
        assert_eq!(toml::from_str::<Levels>(&text).unwrap(), levels);
        assert_eq!(
            text,
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("levels.toml")).unwrap()
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("levels.toml");
        assert_eq!(Levels::read(&path).unwrap(), Levels::default());
        fs::write(&path, "decode = 3").unwrap();
        assert!(matches!(Levels::read(&path), Err(ManifestError::Malformed { .. })));
    }
}
