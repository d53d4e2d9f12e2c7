//! The round and the votes in the devices' queue, rank by rank, in `Round.tla` and `Stream.tla`: pictures of which collectives are entered,
//! with decisions that are as small as they can be. They are no twins of anything in Rust, so only verdicts are checked: what holds, and what
//! each variant breaks.

use crate::tlc::{HOLDS, check, skipped};

/// Modules and configurations, with what TLC must say of each.
const VERDICTS: [(&str, &str, &str); 11] = [
    ("Round", "round-2", HOLDS),
    ("Round", "round-3", HOLDS),
    ("Round", "round-fails-reads-again", "Error: Invariant Matched is violated."),
    ("Round", "round-fails-launches-alone", "Error: Invariant AgreedEqual is violated."),
    ("Round", "round-fails-polls-alone", "Error: Invariant NoStuck is violated."),
    ("Round", "round-fails-dies-unnoticed", "Error: Invariant NoStuck is violated."),
    ("Stream", "stream-2", HOLDS),
    ("Stream", "stream-3", HOLDS),
    ("Stream", "stream-goes-ahead", "Error: Invariant NeverAhead is violated."),
    ("Stream", "stream-behind", HOLDS),
    ("Stream", "stream-fails-chooses-alone", "Error: Invariant Matched is violated."),
];

/// Names of the configurations that are run here.
pub(crate) fn configurations() -> impl Iterator<Item = &'static str> {
    VERDICTS.iter().map(|(_, name, _)| *name)
}

#[test]
fn twin_round_holds_and_refuses_local_reads() {
    for (module, name, says) in VERDICTS {
        if !skipped() {
            assert_eq!(check(module, name), says, "{name}");
        }
    }
}
