//! The list of runs.

use super::listing::Registry;
use super::run::{Mode, PropertyDoc, Ranks, Role, Run, Tier};
use super::runner::{Progress, Safety};
use crate::toys::{Barrier, Crossing, Rule};

const AGREED: Barrier = Barrier { ranks: 2, rule: Rule::Agreed, arrivals_fair: true };

/// Every run of the checker.
#[must_use]
pub fn registry() -> Registry {
    Registry {
        runs: runs(),
        properties: PROPERTIES.to_vec(),
        not_covered: vec!["Crashes: no rank of a toy dies."],
        spec_fingerprint: "toys".to_owned(),
    }
}

fn runs() -> Vec<Run> {
    vec![
        Run::holds("barrier-agreed-2", Progress(AGREED)).params("2 ranks, endless requests").proves(
            Role::Decode,
            Mode::Normal,
            Ranks::Two,
        ),
        Run::holds("barrier-agreed-3", Progress(Barrier { ranks: 3, ..AGREED }))
            .params("3 ranks, endless requests")
            .proves(Role::Decode, Mode::Normal, Ranks::More),
        Run::holds("barrier-agreed-6", Progress(Barrier { ranks: 6, ..AGREED }))
            .params("6 ranks, endless requests")
            .tier(Tier::Pr)
            .proves(Role::Decode, Mode::Normal, Ranks::More),
        Run::holds("crossing-same-order", Safety(Crossing { orders: [[0, 1], [0, 1]] }))
            .params("2 ranks, 2 communicators"),
        Run::hazard("barrier-local-2", "matched", Progress(Barrier { rule: Rule::Local, ..AGREED }))
            .params("2 ranks; a rank that is ready skips the poll"),
        Run::mutant("barrier-unfair", "ends", Progress(Barrier { arrivals_fair: false, ..AGREED }))
            .params("2 ranks; a request may never become ready"),
        Run::mutant("crossing-other-order", "no-stuck", Safety(Crossing { orders: [[0, 1], [1, 0]] }))
            .params("2 ranks, 2 communicators in different orders"),
    ]
}

const PROPERTIES: [PropertyDoc; 3] = [
    PropertyDoc {
        id: "matched",
        sentence: "all ranks that have entered a collective have entered the same",
        source: "the early return",
        not_covered: "",
    },
    PropertyDoc {
        id: "no-stuck",
        sentence: "no reachable state in which a rank waits for what can never complete",
        source: "circular waits",
        not_covered: "",
    },
    PropertyDoc {
        id: "ends",
        sentence: "under fair progress every request that is ready somewhere goes forward",
        source: "the poll",
        not_covered: "Aborts: a request of a toy always goes forward.",
    },
];
