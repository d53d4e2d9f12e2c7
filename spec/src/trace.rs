//! What a rank writes down while it runs, one value a line, so that a checker can tell whether the program is a behaviour of the model: what
//! reached it, what its machine was given, what it entered, what it did.
//!
//! What reached a rank ([`Line::Seen`]) is written where it is put into the rank's queue, and what the machine took ([`Line::Took`]) where it
//! is taken. So a loop that drops, repeats or reorders something is told by its own trace. Lines are written before the rank enters the next
//! collective: what a peer has seen complete is in the trace of every rank that entered it, however that rank ended.

use crate::configuration::GroupConfiguration;
use crate::ids::{Epoch, Leg, RankIndex};
use crate::prefill::parts::Part;
use crate::program::{Event, Posted};
use crate::ticket::Site;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Version of the lines.
pub const FORMAT: u32 = 1;

/// Which of the two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupName {
    /// The decode group.
    Decode,
    /// The prefill group.
    Prefill,
}

impl core::fmt::Display for GroupName {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str(match self {
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        })
    }
}

/// Whose trace it is: the first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the lines.
    pub format: u32,
    /// The rank's group.
    pub group: GroupName,
    /// The rank.
    pub rank: RankIndex,
    /// What all ranks of the group have in common, the epoch included.
    pub configuration: GroupConfiguration,
    /// Fingerprint of the protocol that the rank executes.
    pub protocol: String,
}

/// Something that reached a rank, before anything is made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation<F> {
    /// Every epoch of the decode group before this one is over, on the prefill side.
    Detached(Epoch),
    /// What is a fact by itself.
    Fact(F),
    /// A part of a leg, on the prefill side.
    Part(Leg, Part),
    /// The connection to the decode peer ended, on the prefill side.
    PeerGone,
}

/// How a trace ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// The rank left in order.
    Left,
    /// Something ended it, as it says.
    Failed(String),
}

/// One line of a rank's trace, with facts `F` and local effects `L`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line<F, L> {
    /// Whose trace it is: the first line.
    Opened(Header),
    /// So many lines are left out here: only the last ones were kept.
    Skipped(u64),
    /// Something was put into the rank's queue: what it says; nothing, if it is of no concern to the machine.
    Seen(Vec<Observation<F>>),
    /// The loop took the oldest from the queue.
    Received,
    /// The queue was found empty: all that was seen has been received.
    Drained,
    /// The machine took an event.
    Took(Event<F, Site>),
    /// The rank entered a collective.
    Entered(Posted<Site>),
    /// The rank did something alone.
    Did(L),
    /// The rank ended: the last line.
    Closed(Closing),
}
