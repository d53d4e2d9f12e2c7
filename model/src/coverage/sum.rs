//! The sum over runs: which point is reached first by which, and which by none.

use super::steps::{EPOCHS, TWO_GROUPS};
use super::{UNDRAWN, decode, prefill};
use crate::runs::{Performed, Purpose, Verdict};

/// A point and the first run that reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The point.
    pub point: String,
    /// The run; none if no proof reaches it.
    pub by: Option<&'static str>,
    /// Why it need not be reached, if so.
    pub excuse: Option<&'static str>,
}

impl Reached {
    /// Whether it is a change of phase that nobody may make.
    #[must_use]
    pub fn is_undrawn(&self) -> bool {
        self.point.ends_with(UNDRAWN)
    }
}

/// What the proofs among some runs reach, point by point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage(pub Vec<Reached>);

impl Coverage {
    /// What the proofs among `performed` reach; the first of two that reach a point is named.
    #[must_use]
    pub fn of(performed: &[&Performed<'_>]) -> Self {
        let decisions = [&decode::POINTS, &prefill::POINTS]
            .map(|points| reached(points.names(), |name| points.excuse(name), performed));
        let steps =
            [&TWO_GROUPS, &EPOCHS].map(|steps| reached(steps.names(), |name| steps.excuse(name), performed));
        Self(decisions.into_iter().chain(steps).flatten().collect())
    }

    /// Points that no run reaches and that are not excused, and points that must not be reached.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        let gap =
            |reached: &&Reached| reached.by.is_some() == (reached.is_undrawn() || reached.excuse.is_some());
        let told = |reached: &Reached| match reached.by {
            None => reached.point.clone(),
            Some(run) => format!("{} (by `{run}`, where it must not be)", reached.point),
        };
        self.0.iter().filter(gap).map(told).collect()
    }
}

fn reached(
    names: Vec<String>,
    excuse: impl Fn(&str) -> Option<&'static str>,
    performed: &[&Performed<'_>],
) -> Vec<Reached> {
    let proofs = || performed.iter().filter(|performed| proves(performed));
    let by = |point: &String| proofs().find(|performed| covers(performed, point)).map(|proof| proof.run.name);
    names.into_iter().map(|point| Reached { by: by(&point), excuse: excuse(&point), point }).collect()
}

fn proves(performed: &Performed<'_>) -> bool {
    let verdict = performed.outcome.as_ref().map(|outcome| &outcome.verdict);
    performed.run.purpose == Purpose::Proof && verdict == Some(&Verdict::Holds)
}

fn covers(performed: &Performed<'_>, point: &String) -> bool {
    performed.outcome.as_ref().is_some_and(|outcome| outcome.covered.contains(point))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(point: &str, by: Option<&'static str>, excuse: Option<&'static str>) -> Reached {
        Reached { point: point.to_owned(), by, excuse }
    }

    #[test]
    fn coverage_gaps_are_what_is_missing_and_what_must_not_be_there() {
        let undrawn = format!("decode: free → Running{UNDRAWN}");
        let sound = [
            reached("reached", Some("run"), None),
            reached("excused", None, Some("cannot be")),
            reached(&undrawn, None, None),
        ];
        assert_eq!(Coverage(sound.to_vec()).gaps(), Vec::<String>::new());
        let unsound = [
            reached("missing", None, None),
            reached("excused", Some("run"), Some("cannot be")),
            reached(&undrawn, Some("run"), None),
        ];
        assert_eq!(Coverage(unsound.to_vec()).gaps().len(), 3);
    }

    #[test]
    fn coverage_excuses_name_points() {
        for points in [&decode::POINTS, &prefill::POINTS] {
            let names = points.names();
            let listed = |excused: &str| names.contains(&format!("{}: {excused}", points.role));
            assert!(points.excused.iter().all(|(excused, _)| listed(excused)), "{}", points.role);
            assert_eq!(names.len(), points.count());
        }
        for steps in [&TWO_GROUPS, &EPOCHS] {
            let listed = |excused: &&str| steps.somewhere.contains(excused);
            assert!(steps.excused.iter().all(|(excused, _)| listed(excused)), "{}", steps.of);
        }
    }

    #[test]
    fn coverage_lists_have_room_in_the_notes() {
        let epochs = decode::POINTS.count() + EPOCHS.names().len();
        let lists = [epochs, prefill::POINTS.count(), TWO_GROUPS.names().len()];
        assert!(lists.into_iter().all(|points| points <= crate::explore::MOST_NOTES), "{lists:?}");
    }
}
