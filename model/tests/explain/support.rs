//! Traces to draw and to repeat.

use lockstep_model::conventional::{Variant, model};
use lockstep_model::explain::{Format, Trace, render};
use lockstep_model::explore::Settings;
use lockstep_model::report::Drawing;
use lockstep_model::runs::{Performed, Progress, PropertyDoc, Registry, Run, Safety, registry};
use lockstep_model::toys::{Barrier, Crossing, Rule};

/// A run of the catalogue with few steps.
pub(crate) const RUN: &str = "conventional-handshake-skip-local-overlap";

/// Toys that fail in the ways that no short run of the catalogue does, and a hazard on four ranks.
pub(crate) fn toys() -> Registry {
    let unfair = Barrier { ranks: 2, rule: Rule::Agreed, arrivals_fair: false };
    let crossed = Crossing { orders: [[0, 1], [1, 0]] };
    let wide = model(Variant::HandshakeSkipLocal, true, 3, 1);
    let sentence = "What is & what < is > not \"fair\".";
    let ends = PropertyDoc { id: "ends", sentence, source: "", not_covered: "" };
    Registry {
        runs: vec![
            Run::mutant("toy-unfair", "ends", Progress(unfair)),
            Run::mutant("toy-crossed", "no-stuck", Safety(crossed)),
            Run::hazard("wide", "matched", Progress(wide)),
        ],
        properties: vec![ends],
        not_covered: Vec::new(),
        unbroken: Vec::new(),
        spec_fingerprint: lockstep_spec::FINGERPRINT.to_owned(),
    }
}

#[track_caller]
pub(crate) fn trace_in(registry: &Registry, name: &str) -> Trace {
    let run = registry.runs.iter().find(|run| run.name == name).unwrap();
    let performed = Performed::new(run, &Settings::default(), None);
    assert!(performed.failure.is_none(), "{:?}", performed.failure);
    Trace::of(&performed, registry).unwrap()
}

/// The trace of [`RUN`], the same whatever becomes of the sources.
pub(crate) fn hazard() -> Trace {
    Trace { spec: "spec".to_owned(), model: "model".to_owned(), ..trace_in(&registry(), RUN) }
}

/// A run in which a rank crashes, and its group forms again.
pub(crate) const CRASH: &str = "epochs-mutant-resubmits-from-start";

/// Every kind of trace: a mismatch, a lasso, a stuck state, a lane that ends and begins again.
pub(crate) fn every_kind() -> Vec<Trace> {
    let toys = toys();
    let of_toys = ["toy-unfair", "toy-crossed", "wide"].map(|name| trace_in(&toys, name));
    [hazard(), trace_in(&registry(), CRASH)].into_iter().chain(of_toys).collect()
}

/// A drawing without styles.
pub(crate) fn drawn(trace: &Trace, format: Format) -> String {
    let styled = render(trace, format, Drawing { width: 120, full: false }).unwrap();
    anstream::adapter::strip_str(&styled).to_string()
}
