//! The row that completes a leg, and the pair of ranks that a connection joins. A leg, the identity of one attempt, is spec's.

pub use lockstep_spec::ids::Leg;

use std::fmt;

use serde::{Deserialize, Serialize};

/// What both ends of a connection must have in common: an address alone may have become somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// A number that no other deployment has.
    pub deployment: u64,
    /// Index of the rank in the decode group.
    pub decode: u32,
    /// Index of the rank in the prefill group.
    pub prefill: u32,
}

impl fmt::Display for Pair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deployment, decode, prefill } = self;
        write!(out, "decode rank {decode} and prefill rank {prefill} of deployment {deployment:016x}")
    }
}

/// The metadata row that prefill writes behind the last page of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The leg as prefill knows it. The fabric does not compare it with the leg that it came under.
    pub echo: Leg,
    /// The token sampled after the last position.
    pub first_token: u32,
}
