//! Agreed equal: what is agreed is the same everywhere.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "agreed-equal",
    sentence: "Two ranks that have completed the same round hold the same agreed state.",
    source: "sglang #33442, #26394, #27221, #10070; TensorRT-LLM #14020.",
    not_covered: "A processor that computes a decision differently: the digest in the next vote finds that at run time. One that computes a forward differently: ranks choose tokens together, so its wrong bid is every rank's, and nothing tells.",
};

/// Whether all ranks at one round hold the same digest. Each pair is (round, digest).
#[must_use]
pub fn holds(ranks: &[(u64, u64)]) -> bool {
    ranks.iter().all(|one| ranks.iter().all(|other| one.0 != other.0 || one.1 == other.1))
}
