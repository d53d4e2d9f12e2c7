//! Performing runs one after another, each on all threads.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;

use super::judge::{Failure, judge_counts, judge_verdict};
use super::manifest::Manifest;
use super::outcome::{Exit, Outcome, Verdict};
use super::run::{Expect, Run};
use crate::explore::{Settings, collision_bound};
use crate::report::Story;

/// A run that was performed.
pub struct Performed<'a> {
    /// The run.
    pub run: &'a Run,
    /// What it found; `None` if it could not be performed.
    pub outcome: Option<Outcome>,
    /// Why it fails, if it does.
    pub failure: Option<Failure>,
}

/// A performed run as a line of JSON.
#[derive(Debug, Serialize)]
pub struct JsonLine<'a> {
    run: &'a str,
    expect: String,
    ok: bool,
    exit: u8,
    failure: Option<&'a str>,
    #[serde(flatten)]
    verdict: Option<&'a Verdict>,
    unique: u64,
    transitions: u64,
    depth: u32,
    path: Option<u32>,
    collision_bound: f64,
    elapsed_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    story: Option<&'a Story>,
}

impl<'a> Performed<'a> {
    /// Performs `run` and judges it, its counts too if there is a manifest to compare them with.
    #[must_use]
    pub fn new(run: &'a Run, settings: &Settings, manifest: Option<&Manifest>) -> Self {
        let found = catch_unwind(AssertUnwindSafe(|| run.model.run(settings)));
        let outcome = match found {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(refused)) => return Self::broken(run, refused.to_string()),
            Err(_) => {
                return Self::broken(
                    run,
                    "the model panics outside its steps; see the message above".to_owned(),
                );
            }
        };
        let recorded = |manifest: &Manifest| judge_counts(run, &outcome, manifest.find(run.name));
        let judged = judge_verdict(run, &outcome).and_then(|()| manifest.map_or(Ok(()), recorded));
        Self { run, failure: judged.err(), outcome: Some(outcome) }
    }

    fn broken(run: &'a Run, text: String) -> Self {
        Self { run, outcome: None, failure: Some(Failure::new(Exit::Internal, text)) }
    }

    /// What was found, in words.
    #[must_use]
    pub fn finding(&self) -> String {
        match self.outcome.as_ref().map(|outcome| &outcome.verdict) {
            Some(Verdict::Fault { property, .. }) => format!("violates {property}"),
            Some(Verdict::Holds) => "holds".to_owned(),
            Some(Verdict::Unknown(_)) => "no verdict".to_owned(),
            Some(Verdict::Vacuous { .. }) => "vacuous".to_owned(),
            None => "not performed".to_owned(),
        }
    }

    /// The violated property and the counterexample, if there is one.
    #[must_use]
    pub fn story(&self) -> Option<(&str, &Story)> {
        let outcome = self.outcome.as_ref()?;
        match &outcome.verdict {
            Verdict::Fault { property, .. } => Some((property, outcome.story.as_ref()?)),
            Verdict::Holds | Verdict::Unknown(_) | Verdict::Vacuous { .. } => None,
        }
    }

    /// The run as a line of JSON, with its counterexample if it fails or `trace` asks for it.
    #[must_use]
    pub fn json(&self, trace: bool) -> JsonLine<'_> {
        let outcome = self.outcome.as_ref();
        let counts = outcome.map(|outcome| outcome.counts).unwrap_or_default();
        JsonLine {
            run: self.run.name,
            expect: expect_text(self.run.expect),
            ok: self.failure.is_none(),
            exit: self.failure.as_ref().map_or(Exit::Ok, |failure| failure.exit).code(),
            failure: self.failure.as_ref().map(|failure| failure.text.as_str()),
            verdict: outcome.map(|outcome| &outcome.verdict),
            unique: counts.unique,
            transitions: counts.transitions,
            depth: counts.depth,
            path: outcome.and_then(Outcome::path),
            collision_bound: collision_bound(counts.unique),
            elapsed_seconds: outcome.map_or(0.0, |outcome| outcome.elapsed.as_secs_f64()),
            story: outcome
                .and_then(|outcome| outcome.story.as_ref())
                .filter(|_| trace || self.failure.is_some()),
        }
    }
}

/// An expectation in words.
#[must_use]
pub fn expect_text(expect: Expect) -> String {
    match expect {
        Expect::Holds => "holds".to_owned(),
        Expect::Violates(property) => format!("violates {property}"),
    }
}
