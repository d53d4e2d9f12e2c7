//! Admission fair: nobody starves.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "admission-fair",
    sentence: "No request waits for ever while later ones run, provided that each fact it waits for is eventually voted.",
    source: "Victims by fewest tokens, and admission ahead of retracted requests: common choices that starve.",
    not_covered: "How long it waits; fairness of the N-rank world, where the same facts are voted rank by rank.",
};
