//! Drawings of toy counterexamples, read in review like code.

use super::words::{PLAIN, Words};
use super::{Drawing, RunLine, Story, diverged, draw, grouped, run_line, summary_line, together};
use crate::explore::{Counts, Lane, Settings};
use crate::report::Scene;
use crate::runs::{Progress, Runner, Safety, registry};
use crate::toys::{Barrier, Crossing, Rule};

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn changes_of(story: &Story, property: (&str, &str), width: usize) -> String {
    draw(story, property, Drawing { width, full: false })
}

fn story_of(model: &impl Runner) -> Story {
    model.run(&Settings::default()).unwrap().story.unwrap()
}

fn skipped_poll() -> Story {
    story_of(&Progress(Barrier { ranks: 3, rule: Rule::Local, arrivals_fair: true }))
}

const MATCHED: (&str, &str) = ("matched", "all ranks that have entered a collective have entered the same");

#[test]
fn report_draws_lanes_side_by_side() {
    insta::assert_snapshot!(plain(&changes_of(&skipped_poll(), MATCHED, 120)));
}

#[test]
fn report_wraps_narrow_lanes() {
    insta::assert_snapshot!(plain(&changes_of(&skipped_poll(), MATCHED, 76)));
}

#[test]
fn report_stacks_lanes_that_do_not_fit() {
    insta::assert_snapshot!(plain(&changes_of(&skipped_poll(), MATCHED, 40)));
}

#[test]
fn report_draws_a_cycle() {
    let starved = Progress(Barrier { ranks: 2, rule: Rule::Agreed, arrivals_fair: false });
    insta::assert_snapshot!(plain(&changes_of(
        &story_of(&starved),
        ("ends", "every ready request goes forward"),
        100
    )));
}

#[test]
fn report_draws_a_stuck_state() {
    let crossed = Safety(Crossing { orders: [[0, 1], [1, 0]] });
    insta::assert_snapshot!(plain(&changes_of(&story_of(&crossed), ("no-stuck", ""), 100)));
}

#[test]
fn report_keeps_to_the_width() {
    let story = skipped_poll();
    for width in 30..140 {
        let drawn = plain(&changes_of(&story, MATCHED, width));
        let longest = drawn.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{longest:?} at {width}:\n{drawn}");
    }
}

#[test]
fn report_shows_cells_that_come_and_go() {
    let scene = |action: Option<&str>, lane: Lane| Scene {
        action: action.map(str::to_owned),
        choice: 0,
        events: Vec::new(),
        lanes: vec![lane],
    };
    let story = Story {
        scenes: vec![
            scene(None, Lane::new("rank 0").with("page", 3)),
            scene(Some("page freed"), Lane::new("rank 0").with("slot", 1)),
        ],
        point_of_no_return: None,
        cycle_from: None,
        ending: "the end".to_owned(),
    };
    let drawn = plain(&changes_of(&story, ("p", ""), 80));
    assert!(drawn.contains("slot 1") && drawn.contains("page gone"), "{drawn}");
}

#[test]
fn report_names_the_guard_that_diverged() {
    let guards = diverged(&skipped_poll());
    let said: Vec<(usize, usize, &str)> = guards[0]
        .decisions
        .iter()
        .map(|decision| (decision.lane, decision.step, decision.value.as_str()))
        .collect();
    assert_eq!((guards.len(), guards[0].guard.as_str()), (1, "the request here is ready"));
    assert_eq!(said, [(0, 2, "yes"), (1, 4, "no")]);
    let agreed = Progress(Barrier { ranks: 2, rule: Rule::Agreed, arrivals_fair: false });
    assert_eq!(diverged(&story_of(&agreed)), [], "by agreed values all decide the same");
}

/// Ranks that all go the same way may be wrong together, or one of them alone by what it did there.
#[test]
fn report_says_in_what_ranks_differ_that_went_the_same_way() {
    let story_of = |name: &str| {
        let registry = registry();
        let run = registry.runs.iter().find(|run| run.name == name).unwrap();
        run.model.run(&Settings::default()).unwrap().story.unwrap()
    };
    let said = |name: &str| together(&story_of(name));
    let all = "all have entered the same collectives";
    assert_eq!(
        said("conventional-swallowed-release-normal").unwrap(),
        format!("{all}; what differs between them in the end: page lost (rank 0: yes, rank 1: -)")
    );
    let nothing = format!("{all}, and nothing differs between them in the end");
    assert_eq!(said("conventional-page-reuse-in-flight-normal").as_ref(), Some(&nothing));
    assert_eq!(said("conventional-overlap-early-free-overlap"), Some(nothing));
    assert_eq!(together(&skipped_poll()), None);
}

#[test]
fn report_draws_whole_states() {
    let drawing = Drawing { width: 100, full: true };
    insta::assert_snapshot!(plain(&draw(&skipped_poll(), MATCHED, drawing)));
}

#[test]
fn report_marks_only_what_changed() {
    let styled = changes_of(&skipped_poll(), MATCHED, 120);
    assert!(styled.contains("\u{1b}[1mready\u{1b}[0m"), "new values are bold: {styled:?}");
}

#[test]
fn report_line_says_what_was_found() {
    let line = RunLine {
        name: "barrier",
        name_width: 10,
        finding: "violates matched".to_owned(),
        expected: true,
        counts: Counts { unique: 1_234_567, transitions: 2, depth: 17 },
        path: Some(5),
        elapsed: std::time::Duration::from_millis(1_250),
    };
    let expected = "✓ barrier     violates matched            in 5 steps        1,234,567 states  depth   17      1.25 s";
    assert_eq!(plain(&run_line(&line)), expected);
    assert!(plain(&run_line(&RunLine { expected: false, ..line })).starts_with('✗'));
}

#[test]
fn report_summary_counts_failures() {
    let all = plain(&summary_line(12, 0, 1_000_000));
    assert_eq!(
        all,
        "12 runs, all as expected; states mistaken for one another: p < 1e-27 in the largest run"
    );
    assert!(plain(&summary_line(12, 2, 1)).starts_with("2 of 12 runs not as expected"));
}

#[test]
fn report_groups_digits() {
    assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn report_cuts_words_that_are_too_long() {
    let lines = Words::new(PLAIN, "of communicators").wrap(7);
    assert_eq!(
        lines.iter().map(|line| plain(&line.paint(0))).collect::<Vec<_>>(),
        ["of", "communi", "cators"]
    );
}
