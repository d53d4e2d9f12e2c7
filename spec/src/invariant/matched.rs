//! Matched: the group's collectives pair up.

use super::Property;
use crate::ticket::Ticket;

/// The property.
pub const PROPERTY: Property = Property {
    id: "matched",
    sentence: "The k-th collective that two ranks enter on one communicator agrees in site, kind, shape, epoch and round.",
    source: "The outage behind this project; sglang #36928, #30457, #29483; TensorRT-LLM #14560.",
    not_covered: "What a collective library does inside one collective; the equality of payload lengths that a ticket does not name.",
};

/// Whether all ranks' entries at one place in the order are equal.
pub fn holds<S: PartialEq>(tickets: &[Ticket<S>]) -> bool {
    tickets.windows(2).all(|pair| pair[0] == pair[1])
}
