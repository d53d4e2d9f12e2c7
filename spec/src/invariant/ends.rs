//! Ends: whatever was accepted can still end.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "ends",
    sentence: "From every reachable state every accepted request can still end, without abort or failure.",
    source: "Requests that wait for ever behind a page that nobody gives back; sglang #28651, #38961.",
    not_covered: "That it does end under fair progress is admission-fair. Checked at the agreed level, for any number of ranks; with ranks, no-stuck says it of all requests at once.",
};
