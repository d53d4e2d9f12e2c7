//! The trace file: written and read, damaged, and taken again.

use lockstep_model::explain::{Finding, Format, Trace, path, replay};
use lockstep_model::runs::{Exit, Expect, Manifest, Places, Run, Tier, registry};
use serde_json::{Value, json};

use crate::support::{RUN, drawn, every_kind, hazard, toys, trace_in};

/// Above it a run takes too long to be made twice.
const MOST_STATES: u64 = 20_000;

#[test]
fn trace_reads_what_it_writes() {
    for trace in every_kind() {
        assert_eq!(Trace::from_json(&trace.to_json().unwrap()).unwrap(), trace);
    }
}

#[test]
fn trace_of_every_small_run_is_taken_again() {
    let (registry, manifest) = (registry(), Manifest::read(&Places::default().manifest).unwrap());
    let small = |name: &str| manifest.find(name).is_some_and(|record| record.unique <= MOST_STATES);
    let violates = |run: &&Run| matches!(run.expect, Expect::Violates(_));
    let failing = registry.of_tier(Tier::Quick).filter(|run| violates(run) && small(run.name));
    let names: Vec<&str> = failing.map(|run| run.name).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let trace = Trace::from_json(&trace_in(&registry, name).to_json().unwrap()).unwrap();
        let replay = replay(&trace, &registry).unwrap();
        assert_eq!((replay.finding, replay.warnings), (Finding::Same, Vec::new()), "{name}");
    }
}

#[test]
fn replay_repeats_a_lasso_and_a_stuck_state() {
    let toys = toys();
    for name in ["toy-unfair", "toy-crossed"] {
        assert_eq!(replay(&trace_in(&toys, name), &toys).unwrap().finding, Finding::Same, "{name}");
    }
    let lasso = trace_in(&toys, "toy-unfair");
    let (mut early, mut open) = (lasso.clone(), lasso);
    early.story.cycle_from = Some(0);
    open.story.scenes.pop();
    for (name, trace) in [("nothing is owed at the start", early), ("it does not return", open)] {
        let found = replay(&trace, &toys).unwrap();
        assert_eq!((&found.finding, found.exit()), (&Finding::Elsewhere(None), Exit::NotFound), "{name}");
    }
}

#[test]
fn replay_says_where_it_diverges() {
    let mut renamed = hazard();
    renamed.story.scenes[3].action = Some("rank 0 jumps".to_owned());
    let found = replay(&renamed, &registry()).unwrap();
    assert_eq!(found.exit(), Exit::Moved);
    let text = found.finding.to_string();
    assert!(
        text.starts_with("diverges at step 3: expected `rank 0 jumps`; but possible are `rank 0 turns`"),
        "{text}"
    );
    let mut other = hazard();
    other.story.scenes[6].lanes[0].cells[2].1 = "lost".to_owned();
    let text = replay(&other, &registry()).unwrap().finding.to_string();
    let cell = "expected `address` of rank 0 to be `lost`; but it is `Cached`";
    assert!(text.contains(cell) && text.contains("at step 6"), "{text}");
}

#[test]
fn replay_tells_another_end_from_the_same() {
    let mut another = hazard();
    another.property = "no-stuck".to_owned();
    let found = replay(&another, &registry()).unwrap();
    assert_eq!((found.finding, found.warnings.len()), (Finding::Elsewhere(Some("matched".to_owned())), 2));
    let mut short = hazard();
    short.story.scenes.pop();
    let trapped = Finding::Elsewhere(Some("no-stuck".to_owned()));
    assert_eq!(replay(&short, &registry()).unwrap().finding, trapped, "the point of no return is behind");
    short.story.scenes.truncate(6);
    assert_eq!(replay(&short, &registry()).unwrap().finding, Finding::Elsewhere(None));
    let mut foreign = hazard();
    foreign.run = "of-another-build".to_owned();
    assert_eq!(replay(&foreign, &registry()).unwrap_err().exit, Exit::Usage);
}

/// What reading says once `change` has been at the file.
fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let mut file: Value = serde_json::from_str(&hazard().to_json().unwrap()).unwrap();
    change(&mut file);
    Trace::from_json(&file.to_string()).unwrap_err().to_string()
}

#[test]
fn trace_refuses_what_is_damaged() {
    let whole = hazard().to_json().unwrap();
    let cases = [
        (Trace::from_json(&whole[..whole.len() / 2]).unwrap_err().to_string(), "EOF while parsing"),
        (Trace::from_json("").unwrap_err().to_string(), "EOF while parsing"),
        (Trace::from_json("[1, 2]").unwrap_err().to_string(), "but no trace"),
        (Trace::from_json("{\"format\": \"ITF\"}").unwrap_err().to_string(), "but no trace"),
        (refusal(|file| file["version"] = json!(2)), "version 2"),
        (refusal(|file| file["property"]["kind"] = json!("bad")), "unknown variant"),
        (refusal(|file| file["point_of_no_return"] = json!(11)), "at step 11"),
        (refusal(|file| file["steps"][4]["index"] = json!(9)), "damaged at step 5"),
        (refusal(|file| file["steps"][1]["changes"][0]["from"] = json!("x")), "damaged at step 2"),
        (refusal(|file| file["steps"][1]["changes"][0]["lane"] = json!(7)), "damaged at step 2"),
        (refusal(|file| file["steps"][0]["events"][0]["lane"] = json!(2)), "damaged at step 1"),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "{said}: {expected}");
    }
}

/// Whatever still reads after some damage is drawn in every format and taken again.
#[test]
fn trace_survives_damage_at_any_place() {
    let (whole, registry) = (hazard().to_json().unwrap(), registry());
    let mut read = 0;
    for (place, byte) in
        (0..whole.len()).step_by(7).zip([b'9', b'"', b'0', b' ', b'-', b'x', b'\n'].into_iter().cycle())
    {
        let mut damaged = whole.clone().into_bytes();
        damaged[place] = byte;
        if let Some(trace) = String::from_utf8(damaged).ok().and_then(|text| Trace::from_json(&text).ok()) {
            Format::ALL.into_iter().for_each(|format| assert!(!drawn(&trace, format).is_empty()));
            let _ = replay(&trace, &registry);
            read += 1;
        }
    }
    assert!(read > 50, "only {read} read after all");
}

#[test]
fn trace_without_lanes_is_drawn() {
    let mut bare = hazard();
    bare.story.scenes.truncate(1);
    bare.story.scenes[0].lanes.clear();
    bare.story.point_of_no_return = None;
    let bare = Trace::from_json(&bare.to_json().unwrap()).unwrap();
    Format::ALL
        .into_iter()
        .for_each(|format| assert!(format == Format::Shiviz || !drawn(&bare, format).is_empty()));
}

#[test]
fn path_says_what_is_wrong() {
    let error = |result: Result<(), lockstep_model::explain::PathError>| result.unwrap_err().to_string();
    assert!(path("no-such-run").is_err());
    let start = || path(RUN).unwrap().step("rank 0 sees Arrived");
    assert_eq!(start().holds(), Ok(()));
    let said = error(start().violates("matched"));
    assert_eq!(said, "the path must end in a violation of `matched`, and ends in no violation");
    let said = error(start().ending_with("rank 0", "address", "Cached").holds());
    assert_eq!(said, "in the end `address` of rank 0 is `Missing`, not `Cached`");
    let said = error(start().step("rank 9 turns").holds());
    assert!(said.starts_with("step 2, `rank 9 turns`, is not possible: these are: rank 0 sees "), "{said}");
}
