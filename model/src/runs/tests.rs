//! Runs end to end on toys: verdicts, exit codes, records and files.

use std::collections::BTreeSet;
use std::fs;

use stateright::{Model, Property};

mod recording;

use super::*;
use crate::coverage::Coverage;
use crate::decode::field::Field;
use crate::explore::{Explorable, ExploreError, Lane, Settings, Tours, Unknown, agree_with_stateright};
use crate::toys::{Barrier, Crossing, Rule};

const AGREED: Barrier = Barrier { ranks: 2, rule: Rule::Agreed, arrivals_fair: true };
const LOCAL: Barrier = Barrier { rule: Rule::Local, ..AGREED };
const UNFAIR: Barrier = Barrier { arrivals_fair: false, ..AGREED };
/// Toys have nothing to reach.
const NO_COVERAGE: Coverage = Coverage(Vec::new());
const CROSSED: Crossing = Crossing { orders: [[0, 1], [1, 0]] };

/// A model that counts to `most` and then stops, panics, or misses its witness, as its fields say.
#[derive(Clone, Default)]
struct Count {
    most: u8,
    panics_at: Option<u8>,
    properties: Option<fn() -> Vec<Property<Count>>>,
}

impl Model for Count {
    type State = u8;
    type Action = u8;

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, state: &u8, actions: &mut Vec<u8>) {
        actions.extend(Some(state + 1).filter(|next| *next <= self.most));
    }

    fn next_state(&self, _state: &u8, next: u8) -> Option<u8> {
        assert_ne!(Some(next), self.panics_at, "counted too far");
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.properties.map_or_else(Vec::new, |properties| properties())
    }
}

impl Explorable for Count {
    fn may_stop(&self, _state: &u8) -> bool {
        true
    }

    fn lanes(&self, state: &u8) -> Vec<Lane> {
        vec![Lane::new("count").with("at", state)]
    }
}

fn exit_of(run: &Run, settings: &Settings) -> (Exit, String) {
    let performed = Performed::new(run, settings, None);
    performed.failure.map_or_else(|| (Exit::Ok, String::new()), |failure| (failure.exit, failure.text))
}

fn exit_of_run(run: &Run) -> Exit {
    exit_of(run, &Settings::default()).0
}

#[test]
fn runs_exit_as_their_faults_say() {
    let panics = Count { most: 3, panics_at: Some(2), ..Count::default() };
    let vacuous = Count {
        most: 3,
        properties: Some(|| vec![Property::sometimes("nine", |_, at| *at == 9)]),
        ..Count::default()
    };
    let unsound = Count {
        properties: Some(|| vec![Property::eventually("nine", |_, at| *at == 9)]),
        ..Count::default()
    };
    let exits = [
        exit_of_run(&Run::holds("agreed", Progress(AGREED))),
        exit_of_run(&Run::holds("crossed", Safety(CROSSED))),
        exit_of_run(&Run::holds("local", Safety(LOCAL))),
        exit_of_run(&Run::holds("unfair", Progress(UNFAIR))),
        exit_of_run(&Run::holds("panics", Safety(panics.clone()))),
        exit_of_run(&Run::holds("vacuous", Safety(vacuous))),
        exit_of_run(&Run::holds("unsound", Safety(unsound))),
        exit_of_run(&Run::mutant("panics", ASSERTION, Safety(panics))),
        exit_of_run(&Run::mutant("local", "matched", Progress(LOCAL))),
        exit_of_run(&Run::mutant("agreed", "matched", Progress(AGREED))),
        exit_of_run(&Run::mutant("local", "ends", Progress(LOCAL))),
    ];
    assert_eq!(exits.map(Exit::code), [0, 11, 12, 13, 14, 20, 70, 0, 0, 23, 23]);
}

#[test]
fn runs_that_violate_another_property_say_which() {
    for (toy, found) in [
        (Run::mutant("local", "ends", Progress(LOCAL)), "matched"),
        (Run::mutant("unfair", "matched", Progress(UNFAIR)), "ends"),
    ] {
        let (exit, text) = exit_of(&toy, &Settings::default());
        assert!(
            exit == Exit::NotFound && text.contains(&format!("violates `{found}` where it must")),
            "{text}"
        );
    }
}

#[test]
fn runs_that_name_no_property_of_their_model_are_refused() {
    let (exit, text) = exit_of(&Run::mutant("local", "mached", Progress(LOCAL)), &Settings::default());
    assert_eq!(exit, Exit::Usage);
    assert!(
        text.contains("`mached`") && text.contains("it has: matched, no-stuck, ends, assertion"),
        "{text}"
    );
}

#[test]
fn runs_that_lose_a_situation_know_it() {
    let counts = || Count {
        most: 3,
        properties: Some(|| vec![Property::sometimes("nine", |_, at| *at == 9)]),
        ..Count::default()
    };
    let exits = [
        exit_of_run(&Run::idler("loses", "nine", Safety(counts()))),
        exit_of_run(&Run::idler("unknown", "ten", Safety(counts()))),
        exit_of_run(&Run::idler("reaches", "nine", Safety(Count { most: 9, ..counts() }))),
        exit_of_run(&Run::idler("fails", "nine", Safety(LOCAL))),
    ];
    assert_eq!(exits.map(Exit::code), [0, 23, 23, 12]);
}

#[test]
fn runs_without_verdict_fail() {
    let capped = Settings { most_states: Some(10), ..Settings::default() };
    let (exit, text) = exit_of(&Run::holds("agreed", Progress(AGREED)), &capped);
    assert_eq!(exit.code(), 22);
    let (how_far, why) = text.split_once(": ").unwrap();
    assert!(how_far.starts_with("no verdict after 1") && how_far.ends_with("of them not expanded"), "{text}");
    assert_eq!(why, "the budget of states is spent; raise it or leave it out");
    assert_eq!(exit_of(&Run::mutant("agreed", "ends", Progress(AGREED)), &capped).0, Exit::Budget);
}

#[test]
fn runs_say_which_step_panicked() {
    let panics = Safety(Count { most: 3, panics_at: Some(2), ..Count::default() });
    let story = panics.run(&Settings::default()).unwrap().story.unwrap();
    assert_eq!(story.steps(), 1);
    assert!(story.ending.starts_with("the model panics in the step `2`: "), "{}", story.ending);
}

#[test]
fn runs_mark_the_point_of_no_return() {
    let story = Progress(LOCAL).run(&Settings::default()).unwrap().story.unwrap();
    assert_eq!((story.steps(), story.point_of_no_return), (5, Some(4)));
}

#[test]
fn runs_tell_a_lasso() {
    let outcome = Progress(UNFAIR).run(&Settings::default()).unwrap();
    let story = outcome.story.unwrap();
    let from = story.cycle_from.unwrap();
    assert_eq!(story.scenes[from].lanes, story.scenes.last().unwrap().lanes);
    assert!(story.steps() as usize > from);
}

#[test]
fn runs_find_the_same_on_any_number_of_threads() {
    let large = Barrier { ranks: 6, ..UNFAIR };
    let found = [1, 2, 4].map(|threads| {
        let outcome = Progress(large).run(&Settings { threads, ..Settings::default() }).unwrap();
        (outcome.verdict, outcome.counts, outcome.story)
    });
    assert!(found[0].1.unique > 50_000, "{:?}", found[0].1);
    assert!(found[0] == found[1] && found[0] == found[2]);
}

#[test]
fn runs_agree_with_stateright_on_toys() {
    let four = agree_with_stateright(Barrier { ranks: 4, ..AGREED }).unwrap();
    assert_eq!(four, Progress(Barrier { ranks: 4, ..AGREED }).run(&Settings::default()).unwrap().counts);
    assert_eq!(agree_with_stateright(CROSSED).unwrap().unique, 4);
}

fn toys() -> Registry {
    let doc = |id, sentence| PropertyDoc { id, sentence, source: "the toys", not_covered: "" };
    Registry {
        runs: vec![
            Run::holds("agreed-2", Progress(AGREED)).params("2 ranks").proves(
                Role::Decode,
                Mode::Normal,
                Ranks::Two,
            ),
            Run::holds("agreed-4", Progress(Barrier { ranks: 4, ..AGREED }))
                .params("4 ranks")
                .tier(Tier::Nightly)
                .proves(Role::Decode, Mode::Overlap, Ranks::More),
            Run::hazard("local", "matched", Progress(LOCAL)).params("ready ranks skip the poll"),
            Run::mutant("unfair", "ends", Progress(UNFAIR)).params("a request may never come"),
        ],
        properties: vec![
            doc("matched", "all enter the same"),
            PropertyDoc { not_covered: "aborts", ..doc("ends", "what is ready goes forward | ends") },
        ],
        not_covered: vec!["Crashes."],
        unbroken: Vec::new(),
        spec_fingerprint: "0123".to_owned(),
    }
}

/// The run, performed and compared with what is recorded.
fn compared<'a>(run: &'a Run, registry: &Registry, manifest: &Manifest) -> Performed<'a> {
    let recorded = Recorded { manifest, spec: &registry.spec_fingerprint };
    Performed::new(run, &Settings::default(), Some(recorded))
}

fn record_of(registry: &Registry, old: &Manifest, tier: Tier) -> Manifest {
    let performed: Vec<_> =
        registry.of_tier(tier).map(|run| Performed::new(run, &Settings::default(), None)).collect();
    recorded(registry, old, &performed)
}

#[test]
fn listing_validates_the_whole() {
    let manifest = record_of(&toys(), &Manifest::default(), Tier::Quick);
    let validate = |change: fn(&mut Registry)| {
        let mut registry = toys();
        change(&mut registry);
        registry.validate(&manifest).map_err(|failure| failure.exit.code())
    };
    assert_eq!(validate(|_| {}), Ok(()));
    assert_eq!(validate(|registry| registry.runs.push(Run::holds("local", Safety(CROSSED)))), Err(70));
    assert_eq!(validate(|registry| registry.properties.truncate(1)), Err(70));
    assert_eq!(
        validate(|registry| registry.properties.push(PropertyDoc { id: "new", ..registry.properties[0] })),
        Err(20)
    );
    assert_eq!(validate(|registry| drop(registry.runs.remove(0))), Err(21));
}

#[test]
fn listing_finds_runs_by_name_and_tier() {
    let registry = toys();
    let names: Vec<_> = registry.of_tier(Tier::Pr).map(|run| run.name).collect();
    assert_eq!(names, ["agreed-2", "local", "unfair"]);
    assert_eq!(registry.named(&["unfair".to_owned()]).unwrap()[0].name, "unfair");
    assert_eq!(registry.named(&["none".to_owned()]).err().map(|failure| failure.exit), Some(Exit::Usage));
}

#[test]
fn outcome_unknown_says_why() {
    let unknown = serde_json::to_value(Verdict::Unknown(Unknown::Boundary { cut: 3 })).unwrap();
    assert_eq!(unknown, serde_json::json!({ "verdict": "unknown", "reason": "boundary", "cut": 3 }));
}

/// A runner that panics outside the model's steps.
struct Broken;

impl Runner for Broken {
    fn properties(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn witnesses(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, _settings: &Settings<'_>) -> Result<Outcome, ExploreError> {
        panic!("broken on purpose")
    }

    fn sample(&self, _: u64, _: &mut dyn FnMut(usize) -> usize) -> Result<Sampled, ExploreError> {
        panic!("broken on purpose")
    }

    fn retrace(&self, _script: &Script) -> Retraced {
        unreachable!("a run that cannot be performed has no trace")
    }

    fn visit(&self, _: &Script, _: usize) -> Visit {
        unreachable!("a run that cannot be performed is not visited")
    }

    fn outlook(&self, _: &Script) -> Outlook {
        unreachable!("a run that cannot be performed is not visited")
    }

    fn tours(&self) -> Tours {
        unreachable!("a run that cannot be performed is not visited")
    }

    fn ways_to_points(&self, _: &mut BTreeSet<String>) -> Vec<(String, Vec<u32>)> {
        unreachable!("a run that cannot be performed is not visited")
    }

    fn traces(&self, _: &[u32]) -> Vec<String> {
        unreachable!("a run that cannot be performed has no trace")
    }
}

#[test]
fn session_survives_a_broken_runner() {
    let run = Run::holds("broken", Broken);
    let performed = Performed::new(&run, &Settings::default(), None);
    assert_eq!(performed.failure.as_ref().map(|failure| failure.exit), Some(Exit::Internal));
    assert_eq!(performed.finding(), "not performed");
}

/// Names of the rules of a role, as spec's sources have them.
fn rules(role: &str, source: &'static str) -> Vec<String> {
    let methods = source.lines().filter_map(|line| line.strip_prefix("    fn "));
    methods.filter_map(|line| Some(format!("{role}: {}", line.split_once('(')?.0))).collect()
}

#[test]
fn registry_has_a_mutant_for_each_rule_or_says_why_not() {
    let registry = registry();
    let mut all = rules("decode", include_str!("../../../spec/src/decode/rules.rs"));
    all.extend(rules("prefill", include_str!("../../../spec/src/prefill/rules.rs")));
    all.extend(rules("start", include_str!("../../../spec/src/start/rules.rs")));
    all.extend(rules("handshake", include_str!("../../../spec/src/handshake/rules.rs")));
    all.extend(Field::ALL.map(|field| field.rule().to_owned()));
    assert!(all.len() > 20, "{all:?}");
    let broken = |rule: &String| registry.runs.iter().any(|run| run.rule == Some(rule));
    let excused = |rule: &String| registry.unbroken.iter().any(|(unbroken, _)| unbroken == rule);
    let either: Vec<&String> = all.iter().filter(|rule| broken(rule) == excused(rule)).collect();
    assert!(either.is_empty(), "without a mutant and a word why, or with both: {either:?}");
    let strangers: Vec<_> = registry
        .runs
        .iter()
        .filter_map(|run| run.rule)
        .filter(|rule| !all.iter().any(|known| known == rule))
        .collect();
    assert!(strangers.is_empty(), "rules that spec does not have: {strangers:?}");
}

#[test]
fn registry_holds_together() {
    let registry = registry();
    assert_eq!(registry.validate(&Manifest::default()), Ok(()));
}
