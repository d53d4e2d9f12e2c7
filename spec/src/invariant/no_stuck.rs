//! No stuck rank.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "no-stuck",
    sentence: "From every reachable state the group can come to rest: every collective entered on any communicator can still complete.",
    source: "Hangs behind green health checks; pegainfer #239, vLLM #48720.",
    not_covered: "Time: that a completion comes soon is the runtime's deadlines' part.",
};
