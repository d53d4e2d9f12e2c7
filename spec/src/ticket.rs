//! The places where a group meets. A ticket names one entry of one rank into one collective; the tickets of all ranks must be equal.

use crate::ids::{Epoch, Round};
use core::fmt;
use serde::{Deserialize, Serialize};

/// A numbered place where the group meets: those of its start, which are in round 0, and then those of each round in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Site {
    /// What each rank has to offer: always entered, by every rank.
    Offer,
    /// The name of the device communicator, known to the leader: entered iff every rank offers to join it.
    Name,
    /// The ranks join the device communicator: entered iff it was named.
    Connect,
    /// What each rank has prepared: always entered, by every rank.
    Ready,
    /// The one agreement of a round: always entered, by every rank, here or at the next site.
    Vote,
    /// The same agreement, reduced in the devices' queue ahead of the forward that is launched with it: entered in place of the vote iff the
    /// decision before runs a plan and the group's configuration says so.
    StreamVote,
    /// What only the leader knows: entered iff the agreed vote gives it a length.
    Brief,
    /// One forward pass on the device: entered iff the agreed decision runs a plan.
    Forward,
}

/// What a collective does with the payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Element-wise minimum of all ranks' words.
    MinReduce,
    /// The leader's words reach all ranks.
    Broadcast,
    /// The device collectives of one forward pass; the host sees no payload.
    Forward,
    /// The initialisation of a device communicator; the host sees no payload.
    Connect,
}

/// An ordered stream of collectives. What is entered on one never waits behind what is entered on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Communicator {
    /// Between the hosts: a rank waits for the completion.
    Control,
    /// Between the devices: entries are queued in order and the rank goes on, unless it awaits one of them.
    Device,
}

/// A site of some protocol, so that a checker can follow protocols other than this one.
pub trait SiteName: Copy + Eq + Ord + core::hash::Hash + fmt::Debug + Send + Sync + 'static {
    /// The communicator on which the site's collective runs.
    fn communicator(self) -> Communicator;

    /// Whether a rank waits for the completion before it goes on. On the device communicator what is awaited comes in the queue's order.
    fn awaited(self) -> bool {
        self.communicator() == Communicator::Control
    }
}

impl SiteName for Site {
    fn communicator(self) -> Communicator {
        match self {
            Self::Offer | Self::Name | Self::Ready | Self::Vote | Self::Brief => Communicator::Control,
            Self::Connect | Self::StreamVote | Self::Forward => Communicator::Device,
        }
    }

    fn awaited(self) -> bool {
        match self {
            Self::Offer | Self::Name | Self::Ready | Self::Vote | Self::StreamVote | Self::Brief => true,
            Self::Connect | Self::Forward => false,
        }
    }
}

impl Site {
    /// Every site.
    pub const ALL: [Self; 8] = [
        Self::Offer,
        Self::Name,
        Self::Connect,
        Self::Ready,
        Self::Vote,
        Self::StreamVote,
        Self::Brief,
        Self::Forward,
    ];

    /// Number of this site on the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Vote => 0,
            Self::Brief => 1,
            Self::Forward => 2,
            Self::Offer => 3,
            Self::Name => 4,
            Self::Connect => 5,
            Self::Ready => 6,
            Self::StreamVote => 7,
        }
    }
}

impl Kind {
    /// Number of this kind on the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::MinReduce => 0,
            Self::Broadcast => 1,
            Self::Forward => 2,
            Self::Connect => 3,
        }
    }
}

/// One entry of one rank into one collective.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket<S = Site> {
    /// Life of the group.
    pub epoch: Epoch,
    /// Turn of the loop.
    pub round: Round,
    /// Where in the round.
    pub site: S,
    /// What is done with the payload.
    pub kind: Kind,
    /// Size of the payload: 64-bit words of a vote or brief, token positions of a forward, ranks of a communicator.
    pub shape: u64,
}

impl<S: fmt::Debug> fmt::Debug for Ticket<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}[{}] {} {}", self.site, self.shape, self.epoch, self.round)
    }
}

impl<S: fmt::Debug> fmt::Display for Ticket<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}
