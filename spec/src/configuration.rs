//! The group's configuration: the same on every rank, hashed and compared when the group forms. What is a rank's own (its index, port
//! or device) is local evidence and has no place here.

use crate::digest::Digest;
use crate::ids::{BlockKey, Epoch, RankIndex, TokenId};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Everything that every rank of a group must have in common before its first round.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupConfiguration {
    /// Life of the group: the next one has the next number.
    pub epoch: Epoch,
    /// Number of ranks.
    pub ranks: u32,
    /// Slots of the table, that is, requests in the group at once.
    pub slots: u32,
    /// KV pages of the pool.
    pub pages: u32,
    /// Positions that one page holds.
    pub page_size: u32,
    /// Forwards that may be in flight: 1 in the normal loop, 2 under overlap (launch-ahead 1).
    pub flights: u32,
    /// Most tokens of one prefill forward: a longer prompt is computed in chunks. Decode forwards have one token a request.
    pub chunk_tokens: u32,
    /// Leading full pages of a prompt that are kept for prompts that begin alike; 0 if none is. The prefill group's.
    pub prefix_pages: u32,
    /// Pages in the memory of each rank's host: the prefill group copies kept pages there, the decode group those of requests that give
    /// theirs up. 0 if nothing is copied.
    pub host_pages: u32,
    /// Longest brief, in 64-bit words.
    pub brief_words: u32,
    /// Ticks after which a handshake or a transfer has failed.
    pub deadline_ticks: u32,
    /// Tokens that end an output, unless the request ignores them.
    pub stop_tokens: Vec<TokenId>,
    /// Where the collectives of a forward run.
    pub collectives: Collectives,
    /// How forwards reach the device.
    pub forwards: Forwards,
    /// Where a vote is reduced that a launch goes with.
    pub votes: Votes,
}

/// Where the collectives of a forward run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Collectives {
    /// Between the hosts.
    Host,
    /// On the devices' own communicator.
    Device,
}

/// How forwards reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Forwards {
    /// Each operation is launched anew.
    Eager,
    /// Graphs that were captured at the start are replayed.
    Captured,
}

/// Where a vote is reduced that a launch goes with. All others are reduced between the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Votes {
    /// Between the hosts.
    Host,
    /// In the devices' queue, ahead of the forward that is launched: the hosts do not meet for it.
    Stream,
}

/// Most forwards that may be in flight; the vote has an element pair for each.
pub const MAX_FLIGHTS: usize = 2;

/// A configuration that no group can run with, and what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// A size or the deadline is zero.
    Zero(&'static str),
    /// A rank's index is not below the number of ranks.
    Rank {
        /// The index.
        rank: u32,
        /// Ranks of the group.
        ranks: u32,
    },
    /// `flights` is neither 1 nor 2.
    Flights(u32),
    /// `brief_words` is too small for the verdicts of two full plans and one arrival.
    BriefTooShort {
        /// What is configured.
        words: u32,
        /// What is needed.
        needed: u32,
    },
}

impl core::fmt::Display for ConfigurationError {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Zero(field) => write!(formatter, "`{field}` is 0; set it to at least 1"),
            Self::Flights(flights) => {
                write!(formatter, "`flights` is {flights}; use 1 (normal loop) or 2 (overlap)")
            }
            Self::Rank { rank, ranks } => {
                write!(formatter, "there is no rank {rank} in a group of {ranks}; ranks count from 0")
            }
            Self::BriefTooShort { words, needed } => {
                write!(formatter, "`brief_words` is {words}; this group needs at least {needed}")
            }
        }
    }
}

impl core::error::Error for ConfigurationError {}

impl GroupConfiguration {
    /// Shortest brief that always has room for the verdicts of two full plans, one arrival without keys and one abort, in words.
    #[must_use]
    pub fn least_brief_words(slots: u32) -> u32 {
        slots.saturating_add(1).saturating_mul(2).saturating_add(16)
    }

    /// Checks what no group can run with.
    ///
    /// # Errors
    /// Names the first offending field and what it should be.
    pub fn validate(&self) -> Result<(), ConfigurationError> {
        let sizes = [
            ("ranks", self.ranks),
            ("slots", self.slots),
            ("pages", self.pages),
            ("page_size", self.page_size),
            ("chunk_tokens", self.chunk_tokens),
            ("deadline_ticks", self.deadline_ticks),
        ];
        if let Some((field, _)) = sizes.into_iter().find(|(_, value)| *value == 0) {
            return Err(ConfigurationError::Zero(field));
        }
        if !(1..=2).contains(&self.flights) {
            return Err(ConfigurationError::Flights(self.flights));
        }
        let keys = self.prefix_pages.saturating_mul(BlockKey::WORDS);
        let needed = Self::least_brief_words(self.slots).saturating_add(keys);
        if self.brief_words < needed {
            return Err(ConfigurationError::BriefTooShort { words: self.brief_words, needed });
        }
        Ok(())
    }

    /// Checks the same, and that the group has such a rank.
    ///
    /// # Errors
    /// As [`validate`](Self::validate), or the rank that there is not.
    pub fn validate_for(&self, rank: RankIndex) -> Result<(), ConfigurationError> {
        self.validate()?;
        let ranks = self.ranks;
        if rank.0 < ranks { Ok(()) } else { Err(ConfigurationError::Rank { rank: rank.0, ranks }) }
    }

    /// Pages that `positions` KV positions take.
    #[must_use]
    pub fn pages_for(&self, positions: u32) -> usize {
        positions.div_ceil(self.page_size) as usize
    }

    /// Most positions that one request can ever have.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.pages.saturating_mul(self.page_size)
    }

    /// Hash that the ranks compare when the group forms.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        Digest::of(self)
    }

    /// Hash of what every vote compares beside the epoch: the version of this protocol and the configuration. So the first vote of an
    /// epoch already finds a rank that was started with others.
    #[must_use]
    pub fn terms(&self) -> u64 {
        let Self {
            epoch: _,
            ranks,
            slots,
            pages,
            page_size,
            flights,
            chunk_tokens,
            prefix_pages,
            host_pages,
            brief_words,
            deadline_ticks,
            stop_tokens,
            collectives,
            forwards,
            votes,
        } = self;
        let sizes = [ranks, slots, pages, page_size, flights, chunk_tokens, brief_words, deadline_ticks];
        let kept = [prefix_pages, host_pages];
        Digest::of(&(crate::FINGERPRINT, sizes, kept, stop_tokens, collectives, forwards, votes))
    }
}
