//! A trace as a Rust test that takes the path again: on the machines, and on the runtime's loop where these are its ranks.

use crate::explain::trace::Trace;
use crate::report::Change;
use crate::runs::registry;

/// Writes `trace`.
pub(super) fn rust_test(trace: &Trace) -> String {
    let name = identifier(&format!("{} violates {}", trace.run, trace.property));
    let [uses, leads] = if is_of_the_runtime(&trace.run) { ON_THE_LOOP } else { [""; 2] };
    let mut text = format!(
        "//! Written by `lockstep-check explain {} --format test`.\n\nuse lockstep_model::explain::{{PathError, path}};\n{uses}\n",
        one_line(&trace.run)
    );
    let what = [trace.params.as_str(), &trace.sentence].into_iter().filter(|line| !line.is_empty());
    what.for_each(|line| text += &format!("/// {}\n", one_line(line)));
    text += "///\n/// Once the fault is gone, say `.holds()` in the end, or delete the step that is not possible any more.\n";
    text += &format!("#[test]\nfn {name}() -> Result<(), PathError> {{\n    path({:?})?\n", trace.run);
    for index in 1..trace.story.scenes.len() {
        text += &step(trace, index);
    }
    if let Some(from) = trace.story.cycle_from {
        text += &format!("        .repeating_from({from})\n");
    }
    text + leads + &last_cells(trace) + &format!("        .violates({:?})\n}}\n", trace.property)
}

/// What the test uses, and how it leads the runtime's loop.
const ON_THE_LOOP: [&str; 2] = [
    "use lockstep_runtime::rank::rehearse;\n",
    "        // The loop of each rank goes this way, too.\n        .led_by(rehearse)?\n",
];

/// Whether the ranks of a run are those that the runtime executes.
fn is_of_the_runtime(run: &str) -> bool {
    registry().runs.iter().any(|known| known.name == run && !known.model.traces(&[]).is_empty())
}

/// Whether a test can look its run up: one of a protocol outside of this library is not in the list.
pub(super) fn is_known(trace: &Trace) -> bool {
    registry().runs.iter().any(|known| known.name == trace.run)
}

fn step(trace: &Trace, index: usize) -> String {
    let story = &trace.story;
    let action = story.scenes[index].action.as_deref().unwrap_or_default();
    let lanes = story.changes(index).into_iter().zip(trace.titles());
    let comments: String = lanes.filter_map(|(changes, title)| comment(title, &changes)).collect();
    let mark =
        if story.point_of_no_return == Some(index) { "        // The point of no return.\n" } else { "" };
    format!("        .step({action:?})\n{comments}{mark}")
}

/// What changes in a lane, in one line.
fn comment(title: &str, changes: &[Change]) -> Option<String> {
    let told = |change: &Change| format!("{} {}", change.field, change.to.as_deref().unwrap_or("gone"));
    let told: Vec<String> = changes.iter().map(told).collect();
    let line = one_line(&format!("{title}: {}", told.join("; ")));
    (!changes.is_empty()).then(|| format!("        // {line}\n"))
}

/// The cells that the last step changed.
fn last_cells(trace: &Trace) -> String {
    let Some(last) = trace.story.scenes.len().checked_sub(1).filter(|last| *last > 0) else {
        return String::new();
    };
    let lanes = trace.story.changes(last).into_iter().zip(trace.titles());
    let cells = lanes.flat_map(|(changes, title)| {
        changes.into_iter().filter_map(move |change| Some((title, change.field, change.to?)))
    });
    cells.map(|(title, field, to)| format!("        .ending_with({title:?}, {field:?}, {to:?})\n")).collect()
}

fn identifier(text: &str) -> String {
    let letter = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '_' }
    };
    let name: String = text.chars().map(letter).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("run_{name}") } else { name }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
