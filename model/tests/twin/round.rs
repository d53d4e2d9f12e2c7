//! The round, rank by rank, in `Round.tla`: a picture of which collectives are entered, with a decision that is as small as it can be. It is no
//! twin of anything in Rust, so only verdicts are checked: what holds, and what each variant breaks.

use crate::tlc::{HOLDS, check, skipped};

/// Configurations, with what TLC must say of each.
const VERDICTS: [(&str, &str); 6] = [
    ("round-2", HOLDS),
    ("round-3", HOLDS),
    ("round-fails-reads-again", "Error: Invariant Matched is violated."),
    ("round-fails-launches-alone", "Error: Invariant AgreedEqual is violated."),
    ("round-fails-polls-alone", "Error: Invariant NoStuck is violated."),
    ("round-fails-dies-unnoticed", "Error: Invariant NoStuck is violated."),
];

/// Names of the configurations that are run here.
pub(crate) fn configurations() -> impl Iterator<Item = &'static str> {
    VERDICTS.iter().map(|(name, _)| *name)
}

#[test]
fn twin_round_holds_and_refuses_local_reads() {
    for (name, says) in VERDICTS {
        if !skipped() {
            assert_eq!(check("Round", name), says, "{name}");
        }
    }
}
