//! Runs of a group's start: every offer and every outcome of a preparation, and starts that fail.

use super::name;
use crate::explore::Erased;
use crate::protocol::Checked;
use crate::runs::run::Run;
use crate::runs::runner::Progress;
use crate::start::Start;
use crate::start::conventional::{ConventionalStart, Fallback};
use crate::start::mutants::{
    ConnectsUnoffered, KeepsUnjoined, LeavesJoined, ReplaysUncaptured, TakesProposedPages,
};
use lockstep_spec::configuration::{Collectives, Forwards};
use lockstep_spec::invariant::{Property, matched, no_fault, no_stuck, start_sound};
use lockstep_spec::start::{Rules, Shipped};

const BOUNDS: &str = "offers of 1 or 2 pages, with a communicator or without; joining and capturing may fail on any rank; all interleavings";

pub(super) fn proofs() -> Vec<Run> {
    let proof = |ranks: u32| {
        let model = Progress(Checked::new(Start::<Shipped>::new(ranks)));
        Run::holds(name(&["start", &ranks.to_string()]), model).params(format!("ranks {ranks}; {BOUNDS}"))
    };
    let less = |about: &str, collectives, forwards, told: &str| {
        let model = Start::<Shipped>::new(2).proposing(collectives, forwards);
        Run::holds(name(&["start-2", about]), Progress(Checked::new(model)))
            .params(format!("ranks 2, {told}; {BOUNDS}"))
    };
    let mut runs: Vec<Run> = [1, 2, 3].map(proof).into();
    runs.push(less("hosts", Collectives::Host, Forwards::Captured, "not to join a communicator"));
    runs.push(less("eager", Collectives::Device, Forwards::Eager, "not to replay captured forwards"));
    runs
}

pub(super) fn hazards() -> Vec<Run> {
    let hazard = |name, property: Property, fallback, told: &str| {
        let model = Erased::new(Checked::new(ConventionalStart(fallback)));
        Run::hazard(name, property.id, Progress(model)).params(format!("ranks 2; {told}"))
    };
    vec![
        hazard(
            "start-connects-alone",
            no_stuck::PROPERTY,
            Fallback::Communicator,
            "a rank whose device joins no communicator uses the hosts' collectives, and tells nobody",
        ),
        hazard(
            "start-captures-alone",
            matched::PROPERTY,
            Fallback::Graphs,
            "a rank whose capture failed launches eagerly, without the padding of the others' graphs",
        ),
    ]
}

pub(super) fn mutants() -> Vec<Run> {
    vec![
        mutant::<TakesProposedPages>("takes-proposed-pages", start_sound::PROPERTY).breaks("start: pages"),
        mutant::<ConnectsUnoffered>("connects-unoffered", no_fault::PROPERTY).breaks("start: connects"),
        mutant::<KeepsUnjoined>("keeps-unjoined", start_sound::PROPERTY).breaks("start: keeps"),
        mutant::<LeavesJoined>("leaves-joined", start_sound::PROPERTY).breaks("start: gives_up"),
        mutant::<ReplaysUncaptured>("replays-uncaptured", start_sound::PROPERTY).breaks("start: captures"),
    ]
}

fn mutant<R: Rules>(rule: &str, property: Property) -> Run {
    let model = Erased::new(Checked::new(Start::<R>::new(2)));
    Run::mutant(name(&["start-mutant", rule]), property.id, Progress(model))
        .params(format!("ranks 2; {BOUNDS}"))
}
