//! No skip: nobody walks past a collective.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "no-skip",
    sentence: "A rank never ends a round without having entered every collective that another rank entered in that round.",
    source: "The outage behind this project: ranks 0 and 1 in a cache reduce, ranks 2 and 3 idle.",
    not_covered: "A rank that died; that ends the epoch.",
};

/// Whether ranks that have ended the same number of rounds have entered the same number of collectives. Each pair is (rounds ended,
/// collectives entered).
#[must_use]
pub fn holds(ranks: &[(u64, usize)]) -> bool {
    ranks.iter().all(|one| ranks.iter().all(|other| one.0 != other.0 || one.1 == other.1))
}
