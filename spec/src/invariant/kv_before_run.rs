//! KV before run.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "kv-before-run",
    sentence: "A plan names only requests whose KV is whole, on every rank, and theirs, and which no remote write can still reach.",
    source: "The rejected repair of the outage: a broadcast that there is a batch; sglang #40125, #17259.",
    not_covered: "Bytes that are wrong under a right checksum.",
};
