//! Admission fair: nobody starves.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "admission-fair",
    sentence: "No request waits for ever while later ones run, provided that each fact it waits for is eventually voted.",
    source: "Victims by fewest tokens, and admission ahead of retracted requests: common choices that starve.",
    not_covered: "How long it waits. With ranks, each of which owes its own facts, it is shown where a run says that each request ends; else at the \
                  agreed level.",
};
