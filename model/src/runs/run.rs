//! Runs and what they are for.

use std::panic::Location;

use lockstep_spec::configuration::Votes;
use serde::{Deserialize, Serialize};

use super::runner::Runner;

/// What a run must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Every property holds.
    Holds,
    /// This property is violated, and no other before it.
    Violates(&'static str),
    /// Every property holds, and this situation is never reached.
    Loses(&'static str),
    /// Every property holds, and there are other states than in this run of the shipped rules.
    Moves(&'static str),
}

/// Why a run exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To show that another run's verdict is due to the one rule that it breaks.
    Control,
    /// To show that a design in use fails.
    Hazard,
    /// To show that a property notices a fault that was put in.
    Mutant,
    /// To show that the protocol holds.
    Proof,
}

/// How often a run is made; each tier includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// With each commit: seconds.
    Quick,
    /// With each pull request: minutes.
    Pr,
    /// Each night.
    Nightly,
}

/// The side of the split that a proof is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Decode group.
    Decode,
    /// Prefill group.
    Prefill,
}

/// Whether rounds go on while a forward is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// They do not.
    Normal,
    /// They do.
    Overlap,
    /// They do, and a vote that a launch goes with is reduced in the devices' queue.
    Stream,
}

impl Mode {
    /// The name in runs and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Overlap => "overlap",
            Self::Stream => "stream",
        }
    }

    /// Whether a second forward may be launched while the first is in flight.
    #[must_use]
    pub const fn overlaps(self) -> bool {
        match self {
            Self::Normal => false,
            Self::Overlap | Self::Stream => true,
        }
    }

    /// Where a vote is reduced that a launch goes with.
    #[must_use]
    pub const fn votes(self) -> Votes {
        match self {
            Self::Normal | Self::Overlap => Votes::Host,
            Self::Stream => Votes::Stream,
        }
    }
}

/// Number of ranks of a group, as far as proofs tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ranks {
    /// One.
    #[serde(rename = "1")]
    One,
    /// Two.
    #[serde(rename = "2")]
    Two,
    /// Three or more.
    #[serde(rename = ">=3")]
    More,
}

/// What a proof covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Class {
    /// Role of the group.
    pub role: Role,
    /// Its mode.
    pub mode: Mode,
    /// Its size.
    pub ranks: Ranks,
}

/// A model at one size, with what it must find.
pub struct Run {
    /// Unique name, in kebab case.
    pub name: &'static str,
    /// The model.
    pub model: Box<dyn Runner>,
    /// What the run must find.
    pub expect: Expect,
    /// Why it exists.
    pub purpose: Purpose,
    /// How often it is made.
    pub tier: Tier,
    /// Its bounds and reductions, as text.
    pub params: String,
    /// What it proves when it holds.
    pub proves: Option<Class>,
    /// Where it is listed.
    pub listed: &'static Location<'static>,
    /// The hazard of the catalogue that it shows, where its name says another.
    pub shows: Option<&'static str>,
    /// The rule that a mutant breaks: role and method of its rules.
    pub rule: Option<&'static str>,
}

impl Run {
    /// A quick run in which every property must hold.
    #[track_caller]
    pub fn holds(name: &'static str, model: impl Runner + 'static) -> Self {
        let model = Box::new(model);
        let (expect, purpose) = (Expect::Holds, Purpose::Proof);
        let (tier, params, listed) = (Tier::Quick, String::new(), Location::caller());
        let (proves, shows, rule) = (None, None, None);
        Self { name, model, expect, purpose, tier, params, proves, listed, shows, rule }
    }

    /// A quick run in which every property must hold, beside others that change one of its rules.
    #[track_caller]
    pub fn control(name: &'static str, model: impl Runner + 'static) -> Self {
        Self { purpose: Purpose::Control, ..Self::holds(name, model) }
    }

    /// A quick run of a design in use, which must violate `property`.
    #[track_caller]
    pub fn hazard(name: &'static str, property: &'static str, model: impl Runner + 'static) -> Self {
        Self { expect: Expect::Violates(property), purpose: Purpose::Hazard, ..Self::holds(name, model) }
    }

    /// A quick run of a design in use in the loop that protects it, where every property must hold.
    #[track_caller]
    pub fn masked(name: &'static str, model: impl Runner + 'static) -> Self {
        Self { purpose: Purpose::Hazard, ..Self::holds(name, model) }
    }

    /// A quick run of the protocol with a fault put in, which must violate `property`.
    #[track_caller]
    pub fn mutant(name: &'static str, property: &'static str, model: impl Runner + 'static) -> Self {
        Self { expect: Expect::Violates(property), purpose: Purpose::Mutant, ..Self::holds(name, model) }
    }

    /// A quick run of the protocol with a fault put in that does no harm but to keep `situation` from being reached.
    #[track_caller]
    pub fn idler(name: &'static str, situation: &'static str, model: impl Runner + 'static) -> Self {
        Self { expect: Expect::Loses(situation), purpose: Purpose::Mutant, ..Self::holds(name, model) }
    }

    /// A quick run of the protocol with a fault put in that does no harm but to make it go other ways than in the run `shipped`.
    #[track_caller]
    pub fn sloth(name: &'static str, shipped: &'static str, model: impl Runner + 'static) -> Self {
        Self { expect: Expect::Moves(shipped), purpose: Purpose::Mutant, ..Self::holds(name, model) }
    }

    /// The run as the one that shows a hazard of the catalogue.
    #[must_use]
    pub fn shows(self, hazard: &'static str) -> Self {
        Self { shows: Some(hazard), ..self }
    }

    /// The run as the one that breaks a rule.
    #[must_use]
    pub fn breaks(self, rule: &'static str) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// The run with its bounds and reductions.
    #[must_use]
    pub fn params(self, params: impl Into<String>) -> Self {
        Self { params: params.into(), ..self }
    }

    /// The run in another tier.
    #[must_use]
    pub fn tier(self, tier: Tier) -> Self {
        Self { tier, ..self }
    }

    /// The run as part of the proof of a class.
    #[must_use]
    pub fn proves(self, role: Role, mode: Mode, ranks: Ranks) -> Self {
        Self { proves: Some(Class { role, mode, ranks }), ..self }
    }
}

/// What is said of a property, in reports and in CHECKS.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyDoc {
    /// Name of the property in models.
    pub id: &'static str,
    /// What it says, in one sentence.
    pub sentence: &'static str,
    /// Where it comes from: an incident, a thread, a chapter of the protocol.
    pub source: &'static str,
    /// What it does not cover; empty if nothing is to be said.
    pub not_covered: &'static str,
}
