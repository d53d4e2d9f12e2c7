//! Runs of the handshake client: a prefill rank that moves or goes, and everything that may fail on the way to it.

use super::name;
use crate::explore::Erased;
use crate::handshake::Handshake;
use crate::handshake::mutants::{
    AsksEachTime, GivesUp, Hurries, KeepsWhatRefused, KeepsWhatWasReady, NeverExhausted, SaysOnce,
    TakesEveryAnswer,
};
use crate::protocol::Checked;
use crate::runs::run::Run;
use crate::runs::runner::Progress;
use lockstep_spec::handshake::{Retry, Rules, Shipped};
use lockstep_spec::invariant::handshake_sound;

/// Pauses of 1, 2, 2, … ticks.
const SHORT: Retry = Retry { first_ticks: 1, interval_ticks: 2, patience_ticks: 3 };
/// Pauses of 1, 2, 4, 4, … ticks.
const LONG: Retry = Retry { first_ticks: 1, interval_ticks: 4, patience_ticks: 6 };

const BOUNDS: &str = "two legs, each greeted once; a prefill rank that may move once and go for good; searches, connections and answers may fail, come late or twice, and a leg be withdrawn, at any time";

fn told(retry: Retry) -> String {
    let Retry { first_ticks, interval_ticks, patience_ticks } = retry;
    format!(
        "ticks: first pause {first_ticks}, interval {interval_ticks}, patience {patience_ticks}; {BOUNDS}"
    )
}

pub(super) fn proofs() -> Vec<Run> {
    let proof = |size: &str, retry: Retry| {
        let model = Progress(Checked::new(Handshake::<Shipped>::new(retry, 2)));
        Run::holds(name(&["handshake", size]), model).params(told(retry))
    };
    vec![proof("short", SHORT), proof("long", LONG)]
}

pub(super) fn mutants() -> Vec<Run> {
    let asks = Progress(Erased::new(Checked::new(Handshake::<AsksEachTime>::new(SHORT, 2))));
    vec![
        Run::idler("handshake-mutant-asks-each-time", "a place is opened that was known", asks)
            .params(told(SHORT))
            .breaks("handshake: keeps_place"),
        mutant::<KeepsWhatRefused>("keeps-what-refused").breaks("handshake: forgets_what_refused"),
        mutant::<Hurries>("hurries").breaks("handshake: next_pause"),
        mutant::<GivesUp>("gives-up").breaks("handshake: next_pause"),
        mutant::<NeverExhausted>("never-exhausted").breaks("handshake: is_exhausted"),
        mutant::<SaysOnce>("says-once").breaks("handshake: says_again"),
        mutant::<TakesEveryAnswer>("takes-every-answer").breaks("handshake: awaits_answer"),
        mutant::<KeepsWhatWasReady>("keeps-what-was-ready").breaks("handshake: ends_with_its_connection"),
    ]
}

fn mutant<R: Rules>(rule: &str) -> Run {
    let model = Erased::new(Checked::new(Handshake::<R>::new(SHORT, 2)));
    Run::mutant(name(&["handshake-mutant", rule]), handshake_sound::PROPERTY.id, Progress(model))
        .params(told(SHORT))
}
