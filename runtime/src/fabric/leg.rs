//! The row that completes a leg. A leg, the identity of one attempt, is spec's.

pub use lockstep_spec::ids::Leg;

use serde::{Deserialize, Serialize};

/// The metadata row that prefill writes behind the last page of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The leg as prefill knows it. The fabric does not compare it with the leg that it came under.
    pub echo: Leg,
    /// The token sampled after the last position.
    pub first_token: u32,
}
