//! The certificate of a run: what was checked, of which sources, how far, and what was found.
//!
//! All but [`Certificate::effort`] is the same on any machine. Its schema is `docs/certificate.schema.json`.

use serde::{Deserialize, Serialize};

use super::counterexample::Counterexample;
use crate::explore::{Counts, Resumed, collision_bound};
use crate::runs::{
    Exit, Outcome, Performed, Purpose, Record, RecordedExpect, Registry, Run, Tier, Verdict, expectation,
    give_up,
};

/// Version of the form of certificates.
pub const SCHEMA: u32 = 1;

/// What a run leaves behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// Version of this form: [`SCHEMA`].
    pub schema: u32,
    /// Version of the checker.
    pub tool: String,
    /// Name of the run.
    pub run: String,
    /// Why the run exists.
    pub purpose: Purpose,
    /// How often it is made.
    pub tier: Tier,
    /// Its bounds, as text.
    pub parameters: String,
    /// Where the run is listed.
    pub listed: Place,
    /// What was checked.
    pub fingerprints: Fingerprints,
    /// What the run must find.
    pub expected: Expected,
    /// What it found; `None` if it could not be performed.
    pub found: Option<Verdict>,
    /// Whether every reachable state was expanded.
    pub exhausted: bool,
    /// Why not.
    pub why_not: Option<String>,
    /// How far the exploration came.
    pub size: Size,
    /// Upper estimate of the probability that two states were taken for one.
    pub collision_bound: f64,
    /// Names of the model's reductions.
    pub reductions: Vec<String>,
    /// Ids of the properties that were checked.
    pub properties: Vec<String>,
    /// Witnesses and kinds of action.
    pub witnesses: Witnesses,
    /// The shortest way to the fault.
    pub counterexample: Option<Counterexample>,
    /// What was recorded of the run when it was performed.
    pub recorded: Option<RecordedNumbers>,
    /// Whether everything is as it must be.
    pub ok: bool,
    /// The exit code that the run asks for.
    pub exit: u8,
    /// What is wrong and what to do.
    pub failure: Option<String>,
    /// What differs from machine to machine.
    pub effort: Effort,
}

/// A place in the sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Path from the root of the workspace.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// Hashes of sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprints {
    /// The specification's.
    pub spec: String,
    /// The models' and the checker's.
    pub model: String,
}

/// What a run must find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Whether it must hold or fail.
    pub verdict: RecordedExpect,
    /// The property that it must violate.
    pub property: Option<String>,
}

/// How far an exploration came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Distinct states.
    pub states: u64,
    /// Expanded states in which every rank is between rounds.
    pub boundary_states: u64,
    /// Steps between states.
    pub transitions: u64,
    /// Greatest distance from the initial states.
    pub depth: u32,
    /// States found that were not expanded.
    pub unexpanded: u64,
}

/// Counts that are recorded and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Distinct states.
    pub states: u64,
    /// Steps between states.
    pub transitions: u64,
    /// Greatest distance from the initial states.
    pub depth: u32,
    /// Steps of the shortest counterexample.
    pub path: Option<u32>,
}

/// What was recorded of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedNumbers {
    /// The specification that was checked then.
    pub spec: String,
    /// The counts.
    #[serde(flatten)]
    pub numbers: Numbers,
}

/// Witnesses and kinds of action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witnesses {
    /// Those that were reached.
    pub reached: Vec<String>,
    /// Those that were not: with one, an exhausted run is vacuous.
    pub missing: Vec<String>,
}

/// What differs from machine to machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Time it took to explore, that before it was resumed included.
    pub seconds: f64,
    /// What the exploration was resumed from, if it did not go in one piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resumed>,
}

impl Certificate {
    /// The certificate of a performed run of `registry`, with what is `recorded` of it.
    #[must_use]
    pub fn of(performed: &Performed<'_>, registry: &Registry, recorded: Option<&Record>) -> Self {
        let (run, outcome) = (performed.run, performed.outcome.as_ref());
        let scope = outcome.map(|outcome| outcome.scope.clone()).unwrap_or_default();
        let failure = performed.failure.as_ref();
        Self {
            schema: SCHEMA,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            run: run.name.to_owned(),
            purpose: run.purpose,
            tier: run.tier,
            parameters: run.params.clone(),
            listed: Place { file: run.listed.file().to_owned(), line: run.listed.line() },
            fingerprints: Fingerprints::of(registry),
            expected: Expected::of(run),
            found: outcome.map(|outcome| outcome.verdict.clone()),
            exhausted: scope.exhausted,
            why_not: why_not(outcome),
            size: outcome.map(Size::of).unwrap_or_default(),
            collision_bound: collision_bound(outcome.map_or(0, |outcome| outcome.counts.unique)),
            reductions: scope.reductions.into_iter().map(str::to_owned).collect(),
            properties: scope.properties.into_iter().map(str::to_owned).collect(),
            witnesses: Witnesses { reached: scope.reached, missing: scope.missing },
            counterexample: outcome.and_then(|outcome| outcome.story.as_ref()).map(Counterexample::from),
            recorded: recorded.map(RecordedNumbers::of),
            ok: failure.is_none(),
            exit: failure.map_or(Exit::Ok, |failure| failure.exit).code(),
            failure: failure.map(|failure| failure.text.clone()),
            effort: outcome.map(Effort::of).unwrap_or_default(),
        }
    }

    /// Whether the two say the same, however long it took. The collision bound follows from the states, and need not survive a file to the
    /// last bit.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        let timeless = |certificate: &Self| Self {
            effort: Effort::default(),
            collision_bound: 0.0,
            ..certificate.clone()
        };
        timeless(self) == timeless(other)
    }

    /// The counts that are compared with what is recorded.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        let Size { states, transitions, depth, .. } = self.size;
        let steps = |found: &Counterexample| u32::try_from(found.steps.len().saturating_sub(1)).ok();
        Numbers { states, transitions, depth, path: self.counterexample.as_ref().and_then(steps) }
    }

    /// Whether what is said of the run bears its being ok: the expected verdict, nothing left open, the counts
    /// that are recorded of the same specification.
    #[must_use]
    pub fn bears_ok(&self) -> bool {
        let property = self.expected.property.as_ref();
        let whole = self.exhausted && self.size.unexpanded == 0;
        let as_expected = match (self.expected.verdict, &self.found) {
            (RecordedExpect::Holds | RecordedExpect::Moves, Some(Verdict::Holds)) => {
                whole && self.witnesses.missing.is_empty()
            }
            (RecordedExpect::Violates, Some(Verdict::Fault { property: found, .. })) => {
                property == Some(found)
            }
            (RecordedExpect::Loses, Some(Verdict::Holds | Verdict::Vacuous { .. })) => whole,
            (
                RecordedExpect::Holds | RecordedExpect::Moves,
                Some(Verdict::Fault { .. } | Verdict::Unknown(_) | Verdict::Vacuous { .. }),
            )
            | (
                RecordedExpect::Violates,
                Some(Verdict::Holds | Verdict::Unknown(_) | Verdict::Vacuous { .. }),
            )
            | (RecordedExpect::Loses, Some(Verdict::Fault { .. } | Verdict::Unknown(_)))
            | (_, None) => false,
        };
        let counted = self.recorded.as_ref().is_some_and(|recorded| {
            recorded.numbers == self.numbers() && recorded.spec == self.fingerprints.spec
        });
        as_expected && counted && self.failure.is_none() && self.exit == Exit::Ok.code()
    }

    /// What was found, in words.
    #[must_use]
    pub fn finding(&self) -> String {
        match &self.found {
            Some(verdict) => verdict.in_words(),
            None => "not performed".to_owned(),
        }
    }

    /// The property that was violated.
    #[must_use]
    pub fn violated(&self) -> Option<&str> {
        match &self.found {
            Some(Verdict::Fault { property, .. }) => Some(property),
            Some(Verdict::Holds | Verdict::Unknown(_) | Verdict::Vacuous { .. }) | None => None,
        }
    }
}

/// Why an exploration was not exhausted.
fn why_not(outcome: Option<&Outcome>) -> Option<String> {
    let Some(outcome) = outcome else { return Some("the run could not be performed".to_owned()) };
    if outcome.scope.exhausted {
        return None;
    }
    match &outcome.verdict {
        Verdict::Unknown(unknown) => Some(give_up(unknown)),
        Verdict::Fault { .. } | Verdict::Holds | Verdict::Vacuous { .. } => {
            Some("the exploration ended at the fault".to_owned())
        }
    }
}

impl Fingerprints {
    /// Those of this checker.
    #[must_use]
    pub fn of(registry: &Registry) -> Self {
        Self { spec: registry.spec_fingerprint.clone(), model: crate::FINGERPRINT.to_owned() }
    }
}

impl Expected {
    /// What `run` must find.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let (verdict, property) = expectation(run.expect);
        Self { verdict, property: property.map(str::to_owned) }
    }
}

impl Size {
    fn of(outcome: &Outcome) -> Self {
        let Counts { unique, transitions, depth } = outcome.counts;
        let (boundary_states, unexpanded) = (outcome.scope.between_rounds, outcome.scope.frontier);
        Self { states: unique, boundary_states, transitions, depth, unexpanded }
    }
}

impl Effort {
    const fn of(outcome: &Outcome) -> Self {
        Self { seconds: outcome.elapsed.as_secs_f64(), resumed: outcome.resumed }
    }
}

impl RecordedNumbers {
    pub(super) fn of(record: &Record) -> Self {
        let Record { unique, transitions, depth, path, .. } = *record;
        Self { spec: record.spec.clone(), numbers: Numbers { states: unique, transitions, depth, path } }
    }
}
