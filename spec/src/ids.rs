//! Small newtypes for everything that is counted or named. Heavy things (tokens' text, pages' bytes, tensors) are ids here and
//! tables in the runtime.

use core::fmt;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($letter, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, formatter)
            }
        }
    };
}

id!(
    /// Index of a rank in its group, 0-based; rank 0 is the leader.
    RankIndex(u32), "r");
id!(
    /// Life of a group from its forming to its end; the next life has the next epoch.
    Epoch(u64), "e");
id!(
    /// Turn of a rank's loop within an epoch.
    Round(u64), "round");
id!(
    /// Stable index of a request in the group's fixed-size table.
    SlotIndex(u32), "s");
id!(
    /// Which occupant of a slot, counted from the slot's first.
    Generation(u64), "g");
id!(
    /// Which handshake of an occupant, counted from its first.
    Attempt(u64), "a");
id!(
    /// One KV page of a group's pool, the same id on every rank.
    PageId(u32), "p");
id!(
    /// One KV page in the memory of each rank's host, the same id on every rank.
    HostPageId(u32), "h");
id!(
    /// One copy of a page between a device and its host, counted from the epoch's first.
    CopyId(u64), "c");
id!(
    /// A request as the front end accepted it; ids grow in acceptance order.
    RequestId(u64), "q");
id!(
    /// One forward pass, counted from the epoch's first.
    ForwardId(u64), "f");
id!(
    /// A token of the model's vocabulary.
    TokenId(u32), "t");

/// Identity of a full page of a prompt: a 128-bit digest of its tokens and of all tokens before them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockKey(pub [u64; 2]);

impl BlockKey {
    /// Words of its encoding.
    pub const WORDS: u32 = 2;
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([high, low]) = self;
        if *high == 0 { write!(formatter, "k{low}") } else { write!(formatter, "k{high:016x}{low:016x}") }
    }
}

impl SlotIndex {
    /// Position of this slot in a table.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Round {
    /// The round that follows.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Identity of one attempt to bring a request's KV into a slot: what page lists, rows and completions carry, so that nothing late is
/// taken for something current.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Leg {
    /// Epoch of the decode group.
    pub epoch: Epoch,
    /// Slot of the decode group.
    pub slot: SlotIndex,
    /// Occupant of that slot.
    pub generation: Generation,
    /// Handshake of that occupant.
    pub attempt: Attempt,
}

impl fmt::Debug for Leg {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}{}{}", self.epoch, self.slot, self.generation, self.attempt)
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}
