//! Performing a run, and judging what it finds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::judge::{Failure, judge_counts, judge_expectation, judge_verdict};
use super::manifest::Recorded;
use super::outcome::{Exit, Outcome, Verdict};
use super::run::{Expect, Run};
use crate::explore::Settings;
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

impl<'a> Performed<'a> {
    /// Performs `run` and judges it, its counts too if there is something `recorded` to compare them with.
    #[must_use]
    pub fn new(run: &'a Run, settings: &Settings<'_>, recorded: Option<Recorded<'_>>) -> Self {
        if let Err(failure) = judge_expectation(run) {
            return Self { run, outcome: None, failure: Some(failure) };
        }
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
        let counted = |recorded| judge_counts(run, &outcome, recorded);
        let judged = judge_verdict(run, &outcome).and_then(|()| recorded.map_or(Ok(()), counted));
        Self { run, failure: judged.err(), outcome: Some(outcome) }
    }

    fn broken(run: &'a Run, text: String) -> Self {
        Self { run, outcome: None, failure: Some(Failure::new(Exit::Internal, text)) }
    }

    /// What was found, in words.
    #[must_use]
    pub fn finding(&self) -> String {
        let verdict = self.outcome.as_ref().map(|outcome| outcome.verdict.in_words());
        verdict.unwrap_or_else(|| "not performed".to_owned())
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
}

/// An expectation in words.
#[must_use]
pub fn expect_text(expect: Expect) -> String {
    match expect {
        Expect::Holds => "holds".to_owned(),
        Expect::Violates(property) => format!("violates {property}"),
        Expect::Loses(situation) => format!("loses {situation}"),
        Expect::Moves(shipped) => format!("moves {shipped}"),
    }
}
