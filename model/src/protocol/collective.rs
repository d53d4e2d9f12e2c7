//! Where the ranks of a protocol meet: who takes part in a collective, on which communicator it runs, and what comes out of it.

use lockstep_spec::agreed::Words;
use lockstep_spec::counters::Counter;
use lockstep_spec::ids::{Epoch, Round};
use lockstep_spec::program::Posted;
use lockstep_spec::ticket::{Kind, SiteName, Ticket};

/// What a collective makes of its members' payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Nothing: members wait for each other. A forward pass is one; its shape is the size of the batch.
    Barrier,
    /// The root's words reach every member.
    Broadcast {
        /// Rank whose words they are.
        root: usize,
    },
    /// Every member's words, in rank order.
    Gather,
    /// Element-wise maximum.
    Maximum,
    /// Element-wise minimum.
    Minimum,
    /// Element-wise sum; it stays at the greatest word where it would overflow.
    Sum,
}

impl Operation {
    /// The outcome of `entries`: ranks and their payloads, in rank order.
    pub(super) fn outcome(self, entries: &[(usize, Words)]) -> Words {
        let payloads = || entries.iter().map(|(_, payload)| payload);
        match self {
            Self::Barrier => Words::new(),
            Self::Broadcast { root } => entries
                .iter()
                .find(|(rank, _)| *rank == root)
                .map_or_else(Words::new, |(_, words)| words.clone()),
            Self::Gather => payloads().flatten().copied().collect(),
            Self::Maximum => element_wise(payloads(), u64::max),
            Self::Minimum => element_wise(payloads(), u64::min),
            Self::Sum => element_wise(payloads(), u64::saturating_add),
        }
    }

    /// The nearest of the kinds that a ticket knows. The site, which a ticket names too, tells the operations apart.
    fn kind(self) -> Kind {
        match self {
            Self::Barrier => Kind::Forward,
            Self::Broadcast { .. } => Kind::Broadcast,
            Self::Gather | Self::Maximum | Self::Minimum | Self::Sum => Kind::MinReduce,
        }
    }
}

fn element_wise<'a>(payloads: impl Iterator<Item = &'a Words>, fold: fn(u64, u64) -> u64) -> Words {
    let both = |left: Words, right: Words| left.into_iter().zip(right).map(|(l, r)| fold(l, r)).collect();
    payloads.cloned().reduce(both).unwrap_or_default()
}

/// Most ranks of a protocol: what a set of them has room for.
pub(super) const MOST_RANKS: usize = 64;

/// A set of ranks below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members(u64);

impl Members {
    /// Every rank that there is.
    pub const ALL: Self = Self(u64::MAX);

    /// These ranks; one beyond 63 is in no set.
    #[must_use]
    pub fn of(ranks: &[usize]) -> Self {
        ranks.iter().copied().collect()
    }

    /// Those of them that exist in a group of so many ranks.
    pub(super) fn in_group_of(self, ranks: usize) -> Self {
        (0..ranks.min(MOST_RANKS))
            .filter(|rank| self.has(*rank))
            .fold(Self(0), |set, rank| Self(set.0 | 1 << rank))
    }

    /// Whether a rank is one of them.
    #[must_use]
    pub fn has(self, rank: usize) -> bool {
        rank < MOST_RANKS && self.0 & 1 << rank != 0
    }
}

impl FromIterator<usize> for Members {
    /// These ranks; one beyond 63 is in no set.
    fn from_iter<I: IntoIterator<Item = usize>>(ranks: I) -> Self {
        Self(ranks.into_iter().filter(|rank| *rank < MOST_RANKS).fold(0, |set, rank| set | 1 << rank))
    }
}

/// A collective, apart from its place in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    pub(super) operation: Operation,
    pub(super) members: Members,
    pub(super) stream: &'static str,
}

impl Collective {
    /// A collective of all ranks, on the communicator that has no name.
    #[must_use]
    pub const fn of(operation: Operation) -> Self {
        Self { operation, members: Members::ALL, stream: "" }
    }

    /// A message from one rank to another, on a communicator of these two: the receiver enters with the length that it expects.
    #[must_use]
    pub fn message(from: usize, to: usize) -> Self {
        Self::of(Operation::Broadcast { root: from }).among(Members::of(&[from, to]))
    }

    /// The same among some ranks. Each set of members has communicators of its own.
    #[must_use]
    pub const fn among(self, members: Members) -> Self {
        Self { members, ..self }
    }

    /// The same on a communicator with a name, so that it is never behind a collective on another one.
    #[must_use]
    pub const fn on(self, stream: &'static str) -> Self {
        Self { stream, ..self }
    }
}

/// A site of a designer's protocol. Its [`SiteName::communicator`] says whether a rank waits for the completion before it turns again
/// (control) or goes on and takes it later (device).
pub trait Meeting: SiteName {
    /// What happens there.
    fn collective(self) -> Collective;

    /// Shows the words of a payload that are counters, such as an epoch, to `visit`. None by default.
    fn visit(self, _payload: &mut [u64], _visit: &mut dyn FnMut(Counter, &mut u64)) {}

    /// An entry that brings words; its shape is their number.
    fn bring(self, words: impl Into<Words>) -> Posted<Self> {
        let payload = words.into();
        Posted { payload: payload.clone(), ..self.enter(payload.len() as u64) }
    }

    /// An entry that brings nothing: into a barrier of this size, or to receive so many words.
    fn enter(self, shape: u64) -> Posted<Self> {
        let kind = self.collective().operation.kind();
        let ticket = Ticket { epoch: Epoch(0), round: Round(0), site: self, kind, shape };
        Posted { ticket, payload: Words::new() }
    }
}

/// An entry of a protocol that numbers its rounds, or the lives of its group.
pub trait Numbered {
    /// The entry as one of a round. Only ranks that number rounds can be found to skip; others mismatch or are stuck. Of the entries of
    /// an epoch, number all or none: one without number counts as of round 0. A number without bound is shown in the rank's
    /// [`lockstep_spec::counters::Counters`], as a round.
    #[must_use]
    fn in_round(self, round: u64) -> Self;

    /// The entry as one of an epoch. Each epoch has communicators of its own.
    #[must_use]
    fn in_epoch(self, epoch: u64) -> Self;
}

impl<S> Numbered for Posted<S> {
    fn in_round(mut self, round: u64) -> Self {
        self.ticket.round = Round(round);
        self
    }

    fn in_epoch(mut self, epoch: u64) -> Self {
        self.ticket.epoch = Epoch(epoch);
        self
    }
}

/// Says of a type of sites that a rank waits at each of them for the completion, which is the usual case: implements [`SiteName`].
#[macro_export]
macro_rules! blocking_sites {
    ($site:ty) => {
        impl $crate::protocol::prelude::SiteName for $site {
            fn communicator(self) -> $crate::protocol::prelude::Communicator {
                $crate::protocol::prelude::Communicator::Control
            }
        }
    };
}

/// Says of a rank that none of its numbers grows without bound: implements [`lockstep_spec::counters::Counters`].
#[macro_export]
macro_rules! no_counters {
    ($rank:ty) => {
        impl $crate::protocol::prelude::Counters for $rank {
            fn visit(&mut self, _: &mut dyn FnMut($crate::protocol::prelude::Counter, &mut u64)) {}
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_outcome_of_each_operation() {
        let entries = [(1, vec![4, 1]), (2, vec![3, u64::MAX])];
        let outcomes = [
            (Operation::Barrier, vec![]),
            (Operation::Broadcast { root: 2 }, vec![3, u64::MAX]),
            (Operation::Gather, vec![4, 1, 3, u64::MAX]),
            (Operation::Maximum, vec![4, u64::MAX]),
            (Operation::Minimum, vec![3, 1]),
            (Operation::Sum, vec![7, u64::MAX]),
        ];
        for (operation, outcome) in outcomes {
            assert_eq!(operation.outcome(&entries), outcome, "{operation:?}");
        }
    }

    #[test]
    fn collective_members_are_those_of_the_group() {
        assert_eq!(Members::ALL.in_group_of(2), Members::of(&[0, 1, 64]));
        assert!(!Members::ALL.in_group_of(2).has(2));
    }
}
