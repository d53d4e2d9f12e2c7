//! Start sound: a group starts with what every rank has.

use super::Property;
use crate::configuration::{Collectives, Forwards, GroupConfiguration};
use crate::start::{Offer, Preparation};

/// The property.
pub const PROPERTY: Property = Property {
    id: "start-sound",
    sentence: "A group starts with no more than was proposed: with no more pages than each rank offered, with device collectives only if each rank has joined (else each gives up what it has joined), and with captured forwards only if each has captured them.",
    source: "vLLM #45610 and #45094 (one rank replays a graph, another runs eagerly); pegainfer #481, #496 and #498 (captures that ranks do not make alike).",
    not_covered: "That a graph computes what the eager forward does. Ranks choose tokens together, so a wrong sum of one is every rank's, and nothing tells.",
};

/// Whether a group may start so, by what its ranks offered and what they have prepared.
#[must_use]
pub fn holds(started: &GroupConfiguration, ranks: &[(&Offer, Preparation)]) -> bool {
    let all = |has: fn(&Preparation) -> bool| ranks.iter().all(|(_, preparation)| has(preparation));
    ranks.iter().all(|(offer, _)| started.pages <= offer.pages)
        && (started.collectives == Collectives::Host || all(|preparation| preparation.connected))
        && (started.forwards == Forwards::Eager || all(|preparation| preparation.captured))
}
