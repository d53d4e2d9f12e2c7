//! What ends a rank (a bug or a broken contract, with its evidence) and what is merely asked at the wrong time.

use crate::ids::{CopyId, ForwardId, SlotIndex};
use crate::ticket::Ticket;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Which of the group's identities was found unequal in a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Identity {
    /// Ranks have different configurations, or different versions of this protocol.
    Terms,
    /// Ranks live in different epochs.
    Epoch,
    /// Ranks are in different rounds.
    Round,
    /// Ranks hold different agreed states.
    State,
    /// Ranks saw different tokens from one forward.
    Tokens,
}

/// A broken contract. It ends the epoch: no further collective is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fault {
    /// The reduced vote shows ranks that differ.
    Diverged(Identity),
    /// A rank raised its fault flag.
    Raised,
    /// A rank has no memory for a single page.
    NoRoom,
    /// The transport completed another collective than the one entered.
    WrongCompletion {
        /// What this rank entered.
        expected: Ticket,
        /// What came back.
        got: Ticket,
    },
    /// The transport completed a collective while this rank had entered none.
    Unasked(Ticket),
    /// The payload is not as long as the ticket says.
    WrongShape {
        /// The collective.
        ticket: Ticket,
        /// Words that came.
        words: u64,
    },
    /// The brief cannot be read, or says what it may not.
    BadBrief(&'static str),
    /// A forward is agreed to have retired, and its verdicts are missing.
    VerdictsMissing(ForwardId),
    /// The group agreed on a retirement that this rank has not seen.
    RetiredAhead(ForwardId),
    /// A device reported a forward out of order, or one that is not in flight.
    UnexpectedRetirement(ForwardId),
    /// The group agreed that a copy is complete, and it is not complete here.
    CopiedAhead(CopyId),
    /// A device reported a copy out of order, or one that is not outstanding.
    UnexpectedCopy(CopyId),
    /// The agreed poll of a slot has a value that its phase cannot give.
    ImpossiblePoll(SlotIndex),
    /// A plan names KV that is not whole on this rank.
    KvNotWhole(SlotIndex),
    /// A plan names a leg that its decode peer has not listed to this rank.
    NotListed(SlotIndex),
    /// An invariant of the agreed state does not hold.
    Invariant(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diverged(identity) => write!(formatter, "the ranks diverged: {identity:?} differs"),
            Self::Raised => write!(formatter, "a rank of the group reported a fault"),
            Self::NoRoom => write!(formatter, "a rank of the group has no memory for one KV page"),
            Self::WrongCompletion { expected, got } => {
                write!(formatter, "entered {expected}, but {got} completed")
            }
            Self::Unasked(ticket) => write!(formatter, "{ticket} completed, which was not entered"),
            Self::WrongShape { ticket, words } => write!(formatter, "{ticket} brought {words} words"),
            Self::BadBrief(why) => write!(formatter, "the leader's brief is not valid: {why}"),
            Self::VerdictsMissing(forward) => write!(formatter, "no verdicts for retired forward {forward}"),
            Self::RetiredAhead(forward) => {
                write!(formatter, "forward {forward} is agreed retired, but not retired here")
            }
            Self::UnexpectedRetirement(forward) => {
                write!(formatter, "forward {forward} retired out of order")
            }
            Self::CopiedAhead(copy) => {
                write!(formatter, "copy {copy} is agreed complete, but not complete here")
            }
            Self::UnexpectedCopy(copy) => write!(formatter, "copy {copy} completed out of order"),
            Self::ImpossiblePoll(slot) => write!(formatter, "impossible poll for slot {slot}"),
            Self::KvNotWhole(slot) => write!(formatter, "the plan names {slot}, whose KV is not whole here"),
            Self::NotListed(slot) => write!(formatter, "the plan names {slot}, whose page list is not here"),
            Self::Invariant(name) => write!(formatter, "invariant {name} does not hold"),
        }
    }
}

impl core::error::Error for Fault {}
