//! Vote fresh: a vote is about what it was sampled for.

use super::Property;
use crate::role::Applied;
use crate::table::{Occupant, State};

/// The property.
pub const PROPERTY: Property = Property {
    id: "vote-fresh",
    sentence: "No element of a vote is applied to another occupant or attempt than it was sampled for; pages are published only after \
               every rank's handshake for that attempt.",
    source: "A slot's former occupant's neutral vote read as the new one's success.",
    not_covered: "Elements of the group as a whole, which name no slot.",
};

/// Whether each applied element names the occupant and attempt that the voted state had.
#[must_use]
pub fn holds<O: Occupant>(voted: &State<O>, applied: &[Applied]) -> bool {
    applied.iter().all(|element| {
        voted.slot(element.slot).is_some_and(|slot| {
            let same = (slot.generation, slot.attempt) == (element.generation, element.attempt);
            slot.occupant.is_some() && same
        })
    })
}
