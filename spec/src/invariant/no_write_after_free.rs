//! No write after free: a page is nobody's until nothing can touch it.

use super::Property;
use crate::ids::{PageId, SlotIndex};
use crate::table::{Occupant, State};

/// The property.
pub const PROPERTY: Property = Property {
    id: "no-write-after-free",
    sentence: "No page is free, or another request's, while a forward, a remote write or a queued publish may still touch it.",
    source: "sglang #35049, #37454; vLLM #21570.",
    not_covered: "Writes by a peer that ignores a revoked memory key; the fabric's fence drops them.",
};

/// Whether every page that a forward in flight touches is still held by the slot that the plan names.
#[must_use]
pub fn holds_for_flights<O: Occupant>(state: &State<O>) -> bool {
    let rows = state.flights.queue.iter().flat_map(|flight| &flight.rows);
    rows.into_iter().all(|row| holds_for(state, row.slot, &row.pages))
}

/// Whether pages that something outstanding may touch are still held by `slot`.
#[must_use]
pub fn holds_for<O: Occupant>(state: &State<O>, slot: SlotIndex, touched: &[PageId]) -> bool {
    let held = state.occupant(slot).map_or(&[][..], Occupant::pages);
    touched.iter().all(|page| held.contains(page))
}
