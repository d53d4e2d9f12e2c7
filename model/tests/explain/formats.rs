//! Each drawing against a snapshot, and against what its reader demands.

use std::collections::BTreeMap;

use lockstep_model::explain::{Format, Trace};
use lockstep_model::explore::{Collective, Happening, StepEvent};
use lockstep_model::report::{Drawing, draw};
use lockstep_model::runs::registry;
use serde_json::Value;

use crate::support::{CRASH, drawn, every_kind, hazard, toys, trace_in};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn explain_draws_each_format() {
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Test) {
        let name = format!("hazard_{format:?}").to_lowercase();
        insta::assert_snapshot!(name, drawn(&hazard(), format));
    }
}

/// `generated.rs` is compiled and passes, as it is written.
#[test]
fn explain_test_is_what_the_module_generated_holds() {
    assert_eq!(drawn(&hazard(), Format::Test), include_str!("generated.rs"));
}

#[test]
fn explain_text_shows_whole_states() {
    let trace = hazard();
    let drawing = Drawing { width: 120, full: true };
    let text = draw(&trace.story, (&trace.property, &trace.sentence), drawing);
    let text = anstream::adapter::strip_str(&text).to_string();
    assert_eq!(text.matches("address ").count(), 2 * trace.story.scenes.len(), "{text}");
}

#[test]
fn explain_text_names_the_guard_that_diverged() {
    let guards = "◆ the guard that diverged: a receiver here is not WaitingForInput yet? \
                  rank 0: no (step 7), rank 1: yes (step 9)";
    assert!(drawn(&hazard(), Format::Text).contains(guards));
}

#[test]
fn explain_mermaid_keeps_to_the_grammar() {
    for trace in every_kind() {
        let text = drawn(&trace, Format::Mermaid);
        let mut lines = text.lines().skip(1);
        assert_eq!(lines.next(), Some("sequenceDiagram"));
        let (mut active, mut depth) = (Vec::new(), 0);
        for line in lines.map(str::trim) {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["activate", lane] => active.push((*lane).to_owned()),
                ["deactivate", lane] => {
                    let place = active.iter().position(|other| other == lane);
                    active.remove(place.unwrap_or_else(|| panic!("{lane} is not active:\n{text}")));
                }
                ["loop", ..] => depth += 1,
                ["end"] => depth -= 1,
                ["title" | "participant", ..] | ["Note", "over", ..] => {}
                [call, ..] => {
                    let arrow = ["->>", "-->>", "--x"].into_iter().find(|arrow| call.contains(arrow));
                    assert!(arrow.is_some() && call.ends_with(':'), "{line}");
                }
                [] => panic!("an empty line:\n{text}"),
            }
        }
        assert_eq!(depth, 0, "{text}");
    }
}

/// Whether every element is closed in order, and text holds no bare `&`.
fn well_formed(xml: &str) -> Result<(), String> {
    let mut open = Vec::new();
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').ok_or_else(|| format!("an open tag: {piece}"))?;
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        match (tag.starts_with('?'), tag.starts_with('/'), tag.ends_with('/')) {
            (true, _, _) | (_, _, true) => {}
            (_, true, _) if open.pop().as_deref() == Some(name) => {}
            (_, true, _) => return Err(format!("{name} was not open")),
            (_, false, _) => open.push(name.to_owned()),
        }
        if tag.matches('"').count() % 2 != 0 {
            return Err(format!("quotes of {tag}"));
        }
        let known = ["&amp;", "&lt;", "&gt;", "&quot;"];
        let bare =
            text.match_indices('&').find(|(at, _)| !known.iter().any(|known| text[*at..].starts_with(known)));
        bare.map_or(Ok(()), |_| Err(format!("a bare & in {text}")))?;
    }
    if open.is_empty() { Ok(()) } else { Err(format!("left open: {open:?}")) }
}

#[test]
fn explain_svg_is_well_formed() {
    for trace in every_kind() {
        let svg = drawn(&trace, Format::Svg);
        assert_eq!(well_formed(&svg), Ok(()), "{svg}");
        assert!(!svg.contains("href") && !svg.contains("url("), "it stands alone");
        let titles = trace.story.titles().filter(|title| svg.contains(title)).count();
        assert_eq!(titles, trace.story.titles().count());
    }
    assert!(well_formed("<a><b></a></b>").is_err() && well_formed("<a>&b</a>").is_err());
}

#[test]
fn explain_svg_joins_who_meets_and_breaks_who_does_not() {
    let svg = drawn(&hazard(), Format::Svg);
    let count = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
    assert_eq!((count("band"), count("broken"), count("cross"), count("turning")), (1, 2, 2, 1));
}

/// The clock of each host, checked line by line: its own entry grows by one, and it knows of no other's future.
fn clocks_of(log: &str) -> BTreeMap<String, BTreeMap<String, u64>> {
    let lines: Vec<&str> = log.lines().collect();
    let mut clocks: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for pair in lines.chunks(2) {
        let (host, clock) = pair[0].split_once(' ').unwrap();
        let clock: BTreeMap<String, u64> = serde_json::from_str(clock).unwrap();
        let before = clocks.get(host).cloned().unwrap_or_default();
        assert_eq!(clock[host], before.get(host).unwrap_or(&0) + 1, "{}", pair[0]);
        assert!(before.iter().all(|(other, count)| clock[other] >= *count), "{}", pair[0]);
        let reached = |other: &String| clocks.get(other).and_then(|clock| clock.get(other)).copied();
        assert!(clock.iter().all(|(other, count)| other == host || reached(other) >= Some(*count)));
        assert!(!pair[1].is_empty());
        clocks.insert(host.to_owned(), clock);
    }
    clocks
}

#[test]
fn explain_shiviz_clocks_are_sound() {
    for trace in every_kind() {
        let clocks = clocks_of(&drawn(&trace, Format::Shiviz));
        assert_eq!(clocks.len(), trace.story.titles().count());
    }
    let clocks = clocks_of(&drawn(&hazard(), Format::Shiviz));
    assert_eq!(clocks["rank-1"]["rank-0"], 4, "rank 1 learns from rank 0 where the requests complete");
}

/// Two slices of one track that overlap.
fn overlapping(events: &[Value]) -> Option<(&Value, &Value)> {
    let slices = || events.iter().filter(|event| event["ph"] == "X");
    let span = |event: &Value| {
        let [from, length] = ["ts", "dur"].map(|field| event[field].as_u64().unwrap());
        (event["tid"].as_u64(), from, from + length)
    };
    let overlap = |one: &Value, other: &Value| {
        let ((track, from, to), (beside, begin, end)) = (span(one), span(other));
        track == beside && from < begin && begin < to && to < end
    };
    slices().find_map(|one| Some((one, slices().find(|other| overlap(one, other))?)))
}

#[test]
fn explain_chrome_overlap_is_noticed() {
    let slice =
        |track, from, length| serde_json::json!({ "ph": "X", "tid": track, "ts": from, "dur": length });
    assert!(overlapping(&[slice(1, 5, 9), slice(1, 1, 5)]).is_some());
    assert!(overlapping(&[slice(1, 1, 5), slice(2, 5, 9), slice(1, 2, 2)]).is_none());
}

#[test]
fn explain_chrome_slices_end_after_they_begin() {
    for trace in every_kind() {
        let document = json(&drawn(&trace, Format::Chrome));
        let events = document["traceEvents"].as_array().unwrap();
        let lanes = u64::try_from(trace.story.titles().count()).unwrap();
        for event in events {
            let phase = event["ph"].as_str().unwrap();
            assert!(
                ["M", "X", "b", "e", "i"].contains(&phase) && event["name"].is_string() && event["pid"] == 1
            );
            assert!(event["tid"].as_u64().unwrap() <= lanes);
            assert!(phase == "M" || event["ts"].is_u64());
            assert!(phase != "X" || event["dur"].as_u64().unwrap() > 0, "{event}");
        }
        assert_eq!(overlapping(events), None, "readers take the slices of a track as nested");
    }
    let hazard = json(&drawn(&hazard(), Format::Chrome));
    let never = |event: &&Value| event["args"]["ends"] == "never";
    assert_eq!(hazard["traceEvents"].as_array().unwrap().iter().filter(never).count(), 2);
}

#[test]
fn explain_itf_states_have_every_variable() {
    for trace in every_kind() {
        let document = json(&drawn(&trace, Format::Itf));
        let states = document["states"].as_array().unwrap();
        assert_eq!(states.len(), trace.story.scenes.len());
        for variable in document["vars"].as_array().unwrap() {
            let name = variable.as_str().unwrap();
            assert!(states.iter().all(|state| state.get(name).is_some()), "{name}");
            assert!(document["#meta"]["varTypes"][name].is_string());
        }
        assert_eq!(document["loop"].as_u64(), trace.story.cycle_from.map(|from| from as u64));
    }
}

#[test]
fn explain_marks_what_repeats() {
    let lasso = trace_in(&toys(), "toy-unfair");
    assert!(lasso.story.cycle_from.is_some());
    let marks = [
        (Format::Text, "from here on, for ever"),
        (Format::Svg, "for</tspan> <tspan class=\"amber\">ever"),
        (Format::Mermaid, "loop for ever"),
        (Format::Itf, "\"loop\""),
        (Format::Json, "\"loop_from\""),
        (Format::Test, ".repeating_from("),
    ];
    for (format, mark) in marks {
        assert!(drawn(&lasso, format).contains(mark), "{format:?}");
    }
}

/// The trace of [`CRASH`], in which rank 0 crashes once; here it waits in a vote when it does.
fn crash() -> Trace {
    let mut trace = trace_in(&registry(), CRASH);
    let ends = |event: &StepEvent| event.what == Happening::End;
    let crash = trace.story.scenes.iter_mut().find(|scene| scene.events.iter().any(ends)).unwrap();
    let collective = Collective::new("control", "Vote");
    crash.events.insert(0, StepEvent::on(0, Happening::Enter { collective }));
    trace
}

#[test]
fn explain_ends_the_lane_of_a_rank_that_crashes() {
    let text = drawn(&crash(), Format::Text);
    assert_eq!((text.matches("✕ ends here").count(), text.matches("○ begins").count()), (1, 1), "{text}");
    assert!(text.contains("━━ Vote[21] ━━") && !text.contains("alive true → false"), "{text}");
    let svg = drawn(&crash(), Format::Svg);
    let count = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
    let completed = text.matches("━━ ").count();
    assert_eq!((count("life"), count("cross")), (2 + 1, 2), "both lanes, and one that begins again");
    assert_eq!((count("band"), count("wait")), (completed, completed + 1), "{svg}");
    let mermaid = drawn(&crash(), Format::Mermaid);
    let (_, after) = mermaid.split_once("L0--xL0: 13. ends\n").unwrap();
    assert!(after.trim_start().starts_with("deactivate L0"), "{mermaid}");
    let chrome = json(&drawn(&crash(), Format::Chrome));
    let ended =
        chrome["traceEvents"].as_array().unwrap().iter().filter(|event| event["args"]["ends"] == "end");
    assert_eq!(ended.count(), 1, "{chrome:#}");
}

/// What the second group's ranks enter is compared with nothing that the first one's did.
#[test]
fn explain_shiviz_forgets_the_entries_of_a_lane_that_ended() {
    let mut trace = trace_in(&registry(), "epochs-crash-unnoticed");
    let on = |lane: usize, what: Happening| StepEvent::on(lane, what);
    let vote = || Collective::new("control", "Vote");
    let crash = trace.story.scenes.last_mut().unwrap();
    crash.events.extend([on(0, Happening::End), on(0, Happening::Begin), on(1, Happening::Begin)]);
    crash.events.extend([0, 1].map(|lane| on(lane, Happening::Enter { collective: vote() })));
    crash.events.push(on(1, Happening::Complete { collective: vote() }));
    let log = drawn(&trace, Format::Shiviz);
    let clocks = clocks_of(&log);
    assert_eq!(
        clocks["rank-1"]["rank-0"],
        clocks["rank-0"]["rank-0"] - 1,
        "rank 1 knows of the second entry:\n{log}"
    );
}
