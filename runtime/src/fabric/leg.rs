//! The identity of one attempt to bring a request's KV over, and the row that completes it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One attempt: which occupant of which decode slot, in which decode epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Leg {
    /// Epoch of the decode group.
    pub epoch: u64,
    /// The decode slot.
    pub slot: u32,
    /// Which occupant of the slot.
    pub generation: u32,
    /// Which attempt of that occupant.
    pub attempt: u32,
}

impl fmt::Display for Leg {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            epoch,
            slot,
            generation,
            attempt,
        } = self;
        write!(
            out,
            "epoch {epoch} slot {slot} generation {generation} attempt {attempt}"
        )
    }
}

/// The metadata row that prefill writes behind the last page of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The leg as prefill knows it. The fabric does not compare it with the leg that it came under.
    pub echo: Leg,
    /// Tokens whose KV was written.
    pub tokens: u32,
    /// The first generated token.
    pub first_token: u32,
    /// Digest of the prompt's token ids.
    pub prompt_digest: u64,
    /// Pages that were written.
    pub pages: u32,
}
