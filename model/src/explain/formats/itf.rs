//! A trace in the Informal Trace Format: each lane a map from field to value, and the action that led to each state.

use serde_json::{Map, Value, json};

use crate::explain::trace::Trace;
use crate::explore::Lane;
use crate::report::Scene;

/// The variable that tools for model-based testing read the action from.
const ACTION: &str = "mbt::actionTaken";

/// Writes `trace`.
///
/// # Errors
/// `serde_json`'s.
pub(super) fn itf(trace: &Trace) -> serde_json::Result<String> {
    let lanes: Vec<String> = trace.titles().iter().map(|title| variable(title)).collect();
    let types = std::iter::once(ACTION).map(|name| (name.to_owned(), json!("Str")));
    let types: Map<String, Value> =
        types.chain(lanes.iter().map(|lane| (lane.clone(), json!("Str -> Str")))).collect();
    let vars: Vec<&str> = std::iter::once(ACTION).chain(lanes.iter().map(String::as_str)).collect();
    let scenes = trace.story.scenes.iter().enumerate();
    let states: Vec<Value> = scenes.map(|(index, scene)| state(index, scene, &lanes)).collect();
    let mut document = json!({
        "#meta": {
            "format": "ITF",
            "description": format!("{} violates {}: {}", trace.run, trace.property, trace.ending()),
            "source": trace.run,
            "varTypes": types,
        },
        "params": [],
        "vars": vars,
        "states": states,
    });
    if let (Some(from), Some(fields)) = (trace.story.cycle_from, document.as_object_mut()) {
        fields.insert("loop".to_owned(), json!(from));
    }
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn state(index: usize, scene: &Scene, lanes: &[String]) -> Value {
    let mut fields = Map::new();
    fields.insert("#meta".to_owned(), json!({ "index": index }));
    fields.insert(ACTION.to_owned(), json!(scene.action.as_deref().unwrap_or("init")));
    fields.extend(lanes.iter().zip(&scene.lanes).map(|(name, lane)| (name.clone(), map(lane))));
    Value::Object(fields)
}

fn map(lane: &Lane) -> Value {
    let pairs: Vec<Value> = lane.cells.iter().map(|(field, value)| json!([field, value])).collect();
    json!({ "#map": pairs })
}

/// A title as an identifier.
fn variable(title: &str) -> String {
    title.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect()
}
