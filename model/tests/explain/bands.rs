//! Collectives across lanes: joined also where those that meet are not neighbours, and told apart also where columns are narrow.

use lockstep_model::explain::{Format, Trace, render};
use lockstep_model::explore::{Collective, Happening, Lane, StepEvent};
use lockstep_model::report::{Drawing, Scene, Story};

use crate::support::hazard;

/// A story of three lanes in whose only step these things happen.
fn trace(events: Vec<StepEvent>) -> Trace {
    let scene = |action: Option<&str>, events: Vec<StepEvent>| Scene {
        action: action.map(str::to_owned),
        choice: 0,
        events,
        lanes: (0..3).map(|rank| Lane::new(format!("rank {rank}"))).collect(),
    };
    let story = Story {
        scenes: vec![scene(None, Vec::new()), scene(Some("they meet"), events)],
        point_of_no_return: None,
        cycle_from: None,
        ending: String::new(),
    };
    Trace { story, ..hazard() }
}

fn collective(shape: u64) -> Collective {
    Collective { shape: Some(shape), ..Collective::new("control", "HandshakePoll") }
}

fn drawn(trace: &Trace, format: Format, width: usize) -> String {
    let styled = render(trace, format, Drawing { width, full: false }).unwrap();
    anstream::adapter::strip_str(&styled).to_string()
}

#[test]
fn bands_join_lanes_that_are_not_neighbours() {
    let on = |lane: usize| StepEvent::on(lane, Happening::Complete { collective: collective(1) });
    let text = drawn(&trace(vec![on(0), on(2)]), Format::Text, 100);
    assert!(text.contains("HandshakePoll[1] ──────"), "{text}");
    assert!(text.contains("──── HandshakePoll[1]"), "{text}");
    let threads = |events| drawn(&trace(events), Format::Svg, 100).matches("class=\"thread\"").count();
    assert_eq!([threads(vec![on(0), on(2)]), threads(vec![on(0), on(1)])], [1, 0]);
    let apart =
        |lane: usize| StepEvent::on(lane, Happening::Mismatch { collective: collective(lane as u64) });
    let text = drawn(&trace(vec![apart(0), apart(2)]), Format::Text, 100);
    assert!(text.contains("HandshakePoll[0] ┄┄┄┄") && text.contains("┄╳╳ HandshakePoll[2]"), "{text}");
}

#[test]
fn bands_keep_the_shape_in_narrow_columns() {
    let apart =
        |lane: usize| StepEvent::on(lane, Happening::Mismatch { collective: collective(lane as u64) });
    let text = drawn(&trace(vec![apart(0), apart(1)]), Format::Text, 56);
    assert!(text.contains("Hand") && text.contains("…[0]╳╳") && text.contains("…[1]"), "{text}");
}
