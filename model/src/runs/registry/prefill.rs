//! Runs of the prefill group.

use crate::runs::run::Run;

pub(super) fn proofs() -> Vec<Run> {
    Vec::new()
}

pub(super) fn mutants() -> Vec<Run> {
    Vec::new()
}
