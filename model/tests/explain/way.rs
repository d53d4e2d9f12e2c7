//! A path followed through a run.

use lockstep_model::explain::{Choices, Way, WayError};
use lockstep_model::runs::registry;

use crate::support::RUN;

fn follow(path: &str, at: usize) -> Result<serde_json::Value, WayError> {
    let registry = registry();
    let run = registry.runs.iter().find(|run| run.name == RUN).unwrap();
    let way = Way::follow(run, &registry, &path.parse()?, at)?;
    Ok(serde_json::to_value(way).unwrap())
}

#[test]
fn way_paths_are_read_as_they_are_written() {
    for text in ["0", "3.1.4.1.5"] {
        assert_eq!(text.parse::<Choices>().unwrap().to_string(), text);
    }
    for text in ["", ".", "0.", "0..1", "0.-1", "0.x", "0.4294967296"] {
        assert_eq!(text.parse::<Choices>(), Err(WayError::Malformed(text.to_owned())));
    }
}

#[test]
fn way_offers_what_can_happen_next() {
    let way = follow("0.1", 0).unwrap();
    assert_eq!((way["steps"].as_array().unwrap().len(), &way["at"]), (1, &0.into()));
    let offers = way["offers"].as_array().unwrap();
    let taken = &offers[1];
    assert_eq!((&taken["choice"], &taken["action"]), (&1.into(), &way["steps"][0]["action"]));
    assert_eq!((&taken["events"], &taken["who"]), (&way["steps"][0]["events"], &way["steps"][0]["who"]));
    assert!(way["faults"].as_array().unwrap().is_empty());
}

#[test]
fn way_refuses_what_leads_nowhere() {
    let told = |path: &str, at| follow(path, at).unwrap_err().to_string();
    assert!(told("7", 0).contains("no initial state 7"));
    assert!(told("0.1", 2).contains("the path ends after step 1, and there is no state after step 2"));
    let beyond = told("0.1.99", 0);
    assert!(
        beyond.contains("step 2 of the path takes action 99, and possible there are only 0 to"),
        "{beyond}"
    );
}
