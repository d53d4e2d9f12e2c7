//! Epoch fenced: what is over stays over.

use super::Property;
use crate::ids::Epoch;

/// The property.
pub const PROPERTY: Property = Property {
    id: "epoch-fenced",
    sentence: "Nothing that a group says in one epoch takes effect in a later one.",
    source: "A group's last words that arrive when its requests are with the next group already.",
    not_covered: "Remote writes of an old epoch: the processes and their memory are gone before the next epoch begins.",
};

/// Whether something said in the epoch `said` may have been applied (`applied`) in the epoch `current`.
#[must_use]
pub fn holds(current: Epoch, said: Epoch, applied: bool) -> bool {
    said == current || !applied
}
