//! No fault: honest ranks never accuse each other.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "no-fault",
    sentence: "No rank of an honest group ends with a fault: no event is impossible in the phase it meets.",
    source: "A protocol that is total: for each event in each phase a transition, or a fault that a checker would reach.",
    not_covered: "Faults that a broken device or transport causes; those end the epoch by design.",
};
