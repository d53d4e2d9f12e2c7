//! What a source file may not hold, and where alone a collective may be entered.

use lockstep_tests::places::workspace;

use crate::sources::{Source, all, below};

/// Most lines of a file.
const LINES: usize = 600;

fn places(sources: &[Source], finds: impl Fn(&str) -> bool) -> Vec<String> {
    let of_source = |source: &Source| -> Vec<String> {
        let lines = source.shipped_lines().filter(|(_, line)| finds(line));
        lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim())).collect()
    };
    sources.iter().flat_map(of_source).collect()
}

/// The lines whose match ends in a wildcard although no arm before it is text or a number, which nothing else can close.
fn wildcards(source: &Source) -> Vec<usize> {
    let lines: Vec<(usize, &str)> = source.shipped_lines().collect();
    let is_arm = |line: &str| line.trim_start().starts_with("_ =>") || line.trim_start().starts_with("_ if ");
    let closes_literals = |place: usize| {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let depth = indent(lines[place].1);
        let before = lines[..place].iter().rev().map(|(_, line)| *line);
        let mut arms = before
            .take_while(|line| indent(line) >= depth || line.is_empty())
            .filter(|line| indent(line) == depth);
        arms.any(|arm| arm.trim_start().starts_with(|first: char| first == '"' || first.is_ascii_digit()))
    };
    let found =
        lines.iter().enumerate().filter(|(place, (_, line))| is_arm(line) && !closes_literals(*place));
    found.map(|(_, (number, _))| *number).collect()
}

#[test]
fn style_files_are_short() {
    for Source { path, text } in all() {
        let lines = text.lines().count();
        assert!(lines <= LINES, "{path} has {lines} lines, {LINES} at most: split it");
    }
}

#[test]
fn style_matches_in_spec_and_model_name_every_case() {
    for directory in ["spec/src", "model/src"] {
        for source in below(directory).iter().filter(|source| !source.is_test()) {
            assert_eq!(wildcards(source), [0; 0], "wildcard arms of {}: name the cases", source.path);
        }
    }
}

#[test]
fn style_wildcards_are_told_from_what_must_be_open() {
    let of = |text: &str| wildcards(&Source { path: String::new(), text: text.into() });
    assert_eq!(of("match x {\n    A => 1,\n    _ => 2,\n}"), [3]);
    assert_eq!(of("match x {\n    A => match n {\n        1 => 1,\n    },\n    _ => 2,\n}"), [5]);
    assert_eq!(of("match n {\n    1 => {\n        f()\n    }\n    _ => 2,\n}"), [0; 0]);
    assert_eq!(of("match s {\n    \"a\" => 1,\n    _ => 2,\n}"), [0; 0]);
    assert_eq!(of("#[cfg(test)]\nmod tests {\n    _ => 2,\n}"), [0; 0]);
}

#[test]
fn style_nothing_is_left_to_do() {
    // In two parts, so that this file does not hold them.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("db", "g!(")];
    let mark = |line: &str| marks.iter().any(|mark| line.contains(mark));
    assert_eq!(places(&all(), mark), [""; 0]);
}

#[test]
fn style_spec_prints_nothing() {
    let prints = |line: &str| ["print!(", "println!(", "eprintln!("].iter().any(|print| line.contains(print));
    assert_eq!(places(&below("spec/src"), prints), [""; 0]);
}

#[test]
fn style_unsafe_code_is_forbidden_by_every_root() {
    for root in ["spec/src/lib.rs", "model/src/lib.rs", "model/src/main.rs", "runtime/src/main.rs"] {
        let text = std::fs::read_to_string(workspace().join(root)).unwrap();
        assert!(
            text.lines().any(|line| line == "#![forbid(unsafe_code)]"),
            "{root} does not forbid unsafe code"
        );
    }
}

/// The runtime's library denies what the other roots forbid, for the sake of mapped memory.
#[test]
fn style_unsafe_code_of_the_runtime_is_in_one_place() {
    let text = std::fs::read_to_string(workspace().join("runtime/src/lib.rs")).unwrap();
    assert!(text.lines().any(|line| line == "#![deny(unsafe_code)]"));
    let allows = |line: &str| line.contains("unsafe_code") && !line.starts_with("#![");
    let mut found = places(&below("runtime"), allows);
    found.retain(|place| !place.starts_with("runtime/src/group/shared/mapping.rs:"));
    assert_eq!(found, [""; 0]);
}

/// The claim of the architecture: effects of spec are the only way to a transport, and each kind has one call site.
#[test]
fn style_collectives_are_entered_in_one_place() {
    let sources = below("runtime/src");
    let outside = |directories: &[&str], call: &str| -> Vec<String> {
        let elsewhere = |source: &&Source| {
            !source.is_test()
                && directories
                    .iter()
                    .all(|directory| !source.path.starts_with(&format!("runtime/src/{directory}/")))
        };
        let calls = |source: &Source| source.shipped_lines().filter(|(_, line)| line.contains(call)).count();
        let listed =
            sources.iter().filter(elsewhere).flat_map(|source| vec![source.path.clone(); calls(source)]);
        let mut listed: Vec<String> = listed.collect();
        listed.sort();
        listed
    };
    assert_eq!(
        outside(&["group", "engine"], ".all_reduce_min("),
        ["runtime/src/rank/collective.rs", "runtime/src/rank/flights.rs"]
    );
    assert_eq!(outside(&["group", "engine"], ".all_reduce_sum("), ["runtime/src/rank/flights.rs"]);
    assert_eq!(outside(&["group"], ".broadcast("), ["runtime/src/rank/collective.rs"]);
    let seen = places(&below("runtime/src/engine"), |line| line.contains("crate::group"));
    assert_eq!(seen, [""; 0], "the engine reaches the transport through the rank's device alone");
}
