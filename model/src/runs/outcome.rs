//! Results of a run, free of the model's types.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::explore::{Counts, Resumed, Unknown, Wandered};
use crate::report::Story;

/// The kinds of fault, as TLC's exit codes tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The model panicked.
    Assertion,
    /// Progress fails.
    Liveness,
    /// An `always` property is violated.
    Safety,
    /// A state without successors that may not be an end.
    Stuck,
}

/// What a run says of its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// A property is violated.
    Fault {
        /// How.
        kind: Kind,
        /// Id of the property.
        property: String,
    },
    /// Exhausted, and every property holds.
    Holds,
    /// Not exhausted: no verdict.
    Unknown(Unknown),
    /// Exhausted without a fault, but some witness was not reached or some action never fired.
    Vacuous {
        /// Their names.
        missing: Vec<String>,
    },
}

impl Verdict {
    /// The verdict in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Fault { property, .. } => format!("violates {property}"),
            Self::Holds => "holds".to_owned(),
            Self::Unknown(_) => "no verdict".to_owned(),
            Self::Vacuous { .. } => "vacuous".to_owned(),
        }
    }
}

/// What was looked at on the way to a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Ids of the properties that were checked.
    pub properties: Vec<&'static str>,
    /// Names of the model's reductions.
    pub reductions: Vec<&'static str>,
    /// Witnesses and kinds of action that were reached.
    pub reached: Vec<String>,
    /// Those that were not.
    pub missing: Vec<String>,
    /// Expanded states in which every rank is between rounds.
    pub between_rounds: u64,
    /// States found that were not expanded; with none, the exploration was exhausted.
    pub frontier: u64,
    /// Number of states at each distance from the initial ones, as far as all of them were found.
    pub levels: Vec<u64>,
    /// Whether every reachable state was expanded.
    pub exhausted: bool,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// How far the exploration came.
    pub counts: Counts,
    /// Time it took, that before it was resumed included.
    pub elapsed: Duration,
    /// What the exploration was resumed from.
    pub resumed: Option<Resumed>,
    /// The counterexample of a fault.
    pub story: Option<Story>,
    /// What was looked at.
    pub scope: Scope,
    /// Names of what the steps covered, in the model's order.
    pub covered: Vec<String>,
    /// Names of what they did not cover of the model's list.
    pub uncovered: Vec<String>,
}

/// What random walks through a run's model found.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Where they came.
    pub wandered: Wandered,
    /// The fault that ended them, with its counterexample.
    pub fault: Option<(Verdict, Story)>,
}

impl Outcome {
    /// Steps of the counterexample.
    #[must_use]
    pub fn path(&self) -> Option<u32> {
        self.story.as_ref().map(Story::steps)
    }
}

/// Exit codes: TLC's where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Exit {
    /// Everything is as expected.
    Ok = 0,
    /// The command line is wrong.
    Usage = 2,
    /// A rank is stuck.
    Stuck = 11,
    /// A safety property is violated.
    Safety = 12,
    /// Progress fails.
    Liveness = 13,
    /// The model panicked.
    Assertion = 14,
    /// A run proves nothing.
    Vacuous = 20,
    /// A recorded count or file is stale.
    Moved = 21,
    /// A run was given up.
    Budget = 22,
    /// A run that must fail does not.
    NotFound = 23,
    /// The checker itself is at fault.
    Internal = 70,
}

impl Exit {
    const ALL: [Self; 11] = [
        Self::Ok,
        Self::Usage,
        Self::Stuck,
        Self::Safety,
        Self::Liveness,
        Self::Assertion,
        Self::Vacuous,
        Self::Moved,
        Self::Budget,
        Self::NotFound,
        Self::Internal,
    ];

    /// The exit with this code.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| exit.code() == code)
    }

    /// The process exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Assertion => Self::Assertion,
            Kind::Liveness => Self::Liveness,
            Kind::Safety => Self::Safety,
            Kind::Stuck => Self::Stuck,
        }
    }
}
