//! The guard that diverged has a name where ranks went different ways by what each alone had seen.

use lockstep_model::explain::Format;
use lockstep_model::report::diverged;
use lockstep_model::runs::registry;

use crate::support::{drawn, trace_in};

/// Runs, and the guard of each with what it says on both ranks.
const NAMED: [(&str, &str, [&str; 2]); 9] = [
    ("conventional-pause-split-normal", "the pause was heard here", ["yes", "no"]),
    ("conventional-retracted-skip-local-normal", "a page that was given back is free here", ["yes", "no"]),
    ("conventional-retracted-skip-local-overlap", "a page that was given back is free here", ["yes", "no"]),
    ("conventional-role-switch-local-normal", "the memory here is free", ["yes", "no"]),
    ("conventional-local-sampling-normal", "the logits here are those of the others", ["no", "yes"]),
    ("conventional-checksum-after-reduce-normal", "the row here has the right checksum", ["yes", "no"]),
    (
        "conventional-room-mismatch-after-reduce-normal",
        "the row here is of the request's room",
        ["yes", "no"],
    ),
    (
        "conventional-local-run-or-idle-normal",
        "request 0",
        ["Transferring shaken kv row", "Transferring shaken"],
    ),
    ("start-captures-alone", "able", ["Some(true)", "Some(false)"]),
];

#[test]
fn guards_are_named_with_their_values() {
    let registry = registry();
    for (run, guard, values) in NAMED {
        let found = diverged(&trace_in(&registry, run).story);
        let told: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|one| {
                (one.guard.as_str(), one.decisions.iter().map(|decision| decision.value.as_str()).collect())
            })
            .collect();
        let [(name, said)] = told.as_slice() else { panic!("{run}: {told:?}") };
        assert_eq!((*name, said.as_slice()), (guard, values.as_slice()), "{run}");
    }
}

/// Where no rank went another way, none is named.
#[test]
fn guards_are_not_named_where_none_diverged() {
    for run in ["decode-mutant-loses-pages", "epochs-mutant-resubmits-from-start"] {
        assert_eq!(diverged(&trace_in(&registry(), run).story), [], "{run}");
    }
}

/// A step that changes one leaf of what surrounds the ranks shows that leaf, and not the whole.
#[test]
fn guards_and_changes_show_leaves_of_nested_values() {
    let text = drawn(&trace_in(&registry(), "start-mutant-keeps-unjoined"), Format::Text);
    assert!(text.lines().count() < 120 && !text.contains("→ Around(["), "{text}");
}
