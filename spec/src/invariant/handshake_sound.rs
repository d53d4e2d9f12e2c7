//! Handshake sound: a decode rank looks for its prefill rank patiently, and tells each leg once what became of it.

use super::Property;

/// The property.
pub const PROPERTY: Property = Property {
    id: "handshake-sound",
    sentence: "Attempts to reach the prefill rank are as far apart as they must be and no farther, and none is made at a place that refused before it was asked for anew; a leg hears that it is ready once, on a connection that answered it, that it is exhausted once its patience is over, and that its connection has ended when it has, and nothing once it was withdrawn.",
    source: "SGLang's decode ranks keep what they are told of a prefill and ask 15 times, a second apart, by a request that holds the scheduler's thread for up to 5 s (disaggregation/common/conn.py); a rank whose cache or clock differs is what its polls reduce.",
    not_covered: "What the prefill rank makes of a hello: the two groups' runs do. A driver that feeds no ticks.",
};
