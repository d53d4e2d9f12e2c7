//! What happens in a step, in terms that every drawing knows: where, and what kind of event.

use std::fmt;

use lockstep_spec::ticket::{Communicator, SiteName, Ticket};
use serde::{Deserialize, Serialize};

/// One entry into a collective, as far as a drawing tells entries apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collective {
    /// The ordered stream of collectives that it belongs to.
    pub communicator: String,
    /// Which collective of the protocol.
    pub site: String,
    /// Size of the payload, in the site's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<u64>,
    /// Life of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Turn of the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
}

impl Collective {
    /// A collective of which nothing but the site is known.
    pub fn new(communicator: impl Into<String>, site: impl Into<String>) -> Self {
        let (communicator, site) = (communicator.into(), site.into());
        Self { communicator, site, shape: None, epoch: None, round: None }
    }
}

impl<S: SiteName> From<&Ticket<S>> for Collective {
    fn from(ticket: &Ticket<S>) -> Self {
        let communicator = match ticket.site.communicator() {
            Communicator::Control => "control",
            Communicator::Device => "device",
        };
        Self {
            shape: Some(ticket.shape),
            epoch: Some(ticket.epoch.0),
            round: Some(ticket.round.0),
            ..Self::new(communicator, format!("{:?}", ticket.site))
        }
    }
}

/// Site and shape; with `{:#}` epoch and round, too.
impl fmt::Display for Collective {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.site)?;
        self.shape.map_or(Ok(()), |shape| write!(formatter, "[{shape}]"))?;
        if !formatter.alternate() {
            return Ok(());
        }
        self.epoch.map_or(Ok(()), |epoch| write!(formatter, " epoch {epoch}"))?;
        self.round.map_or(Ok(()), |round| write!(formatter, " round {round}"))
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Happening {
    /// The lane begins, if it was not there from the start: nothing that ended before is known to it.
    Begin,
    /// A collective that the lane had entered completes there.
    Complete {
        /// Which one.
        collective: Collective,
    },
    /// The lane takes a decision by what a guard says there.
    Decide {
        /// What is asked, as a clause.
        guard: String,
        /// What it says on this lane.
        value: String,
    },
    /// The lane ends, with all that it waits in: it may begin again, as another one under the same title.
    End,
    /// The lane enters a collective.
    Enter {
        /// Which one.
        collective: Collective,
    },
    /// Something reaches the lane alone.
    Fact {
        /// What.
        fact: String,
    },
    /// What the lane has entered differs from what another has.
    Mismatch {
        /// What the lane has entered.
        collective: Collective,
    },
    /// A collective that the lane had queued on its device is over there.
    Retire {
        /// Which one.
        collective: Collective,
    },
    /// A step of which no more is known than its name.
    Step {
        /// The name.
        text: String,
    },
    /// The lane's loop turns.
    Turn,
}

impl Happening {
    /// Guard and value of a decision.
    #[must_use]
    pub fn decision(&self) -> Option<(&str, &str)> {
        match self {
            Self::Decide { guard, value } => Some((guard, value)),
            Self::Begin
            | Self::Complete { .. }
            | Self::End
            | Self::Enter { .. }
            | Self::Fact { .. }
            | Self::Mismatch { .. }
            | Self::Retire { .. }
            | Self::Step { .. }
            | Self::Turn => None,
        }
    }

    /// The collective that is entered, if one is.
    #[must_use]
    pub fn entry(&self) -> Option<&Collective> {
        match self {
            Self::Enter { collective } => Some(collective),
            Self::Begin
            | Self::Complete { .. }
            | Self::Decide { .. }
            | Self::End
            | Self::Fact { .. }
            | Self::Mismatch { .. }
            | Self::Retire { .. }
            | Self::Step { .. }
            | Self::Turn => None,
        }
    }

    /// The collective that is entered, completes or retires, if it is about one.
    #[must_use]
    pub fn collective(&self) -> Option<&Collective> {
        match self {
            Self::Complete { collective }
            | Self::Enter { collective }
            | Self::Mismatch { collective }
            | Self::Retire { collective } => Some(collective),
            Self::Begin
            | Self::Decide { .. }
            | Self::End
            | Self::Fact { .. }
            | Self::Step { .. }
            | Self::Turn => None,
        }
    }

    /// What happened in a few words; nothing for what the step's name says already.
    #[must_use]
    pub fn short(&self) -> Option<String> {
        match self {
            Self::Begin => Some("begins".to_owned()),
            Self::Complete { collective } => Some(format!("{collective} completes")),
            Self::Decide { guard, value } => Some(format!("{guard}: {value}")),
            Self::End => Some("ends".to_owned()),
            Self::Enter { collective } => Some(format!("enters {collective}")),
            Self::Fact { fact } => Some(format!("sees {fact}")),
            Self::Mismatch { collective } => Some(format!("waits in {collective}, another rank in another")),
            Self::Retire { collective } => Some(format!("{collective} retires")),
            Self::Step { text } => Some(text.clone()),
            Self::Turn => None,
        }
    }
}

/// Something that happened in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEvent {
    /// Index of the lane where it happened; `None` if it concerns all of them.
    pub lane: Option<usize>,
    /// What happened.
    #[serde(flatten)]
    pub what: Happening,
}

impl StepEvent {
    /// An event in a lane.
    #[must_use]
    pub fn on(lane: usize, what: Happening) -> Self {
        Self { lane: Some(lane), what }
    }

    /// A step known by its name alone: in the lane whose title the name begins with, if there is one.
    pub fn named(text: impl Into<String>, titles: impl Iterator<Item = String>) -> Self {
        let text = text.into();
        let lane = titles.enumerate().find(|(_, title)| begins_with(&text, title)).map(|(index, _)| index);
        Self { lane, what: Happening::Step { text } }
    }
}

/// Whether `text` begins with the words of `title`: "rank 1" does not begin "rank 10 turns".
fn begins_with(text: &str, title: &str) -> bool {
    text.strip_prefix(title).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}
