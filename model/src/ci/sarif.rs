//! SARIF 2.1.0, for code scanning: one result for each run that is not as it must be, with its counterexample as a code flow.
//!
//! A violated property is located at the file of its invariant, everything else where the run is listed; the steps of a code flow are
//! located where the run is listed, because a step is one of the world and not one line of it.

use serde_json::{Value, json};

use super::certificate::{Certificate, Place};
use super::counterexample::Counterexample;
use super::merge::Findings;
use crate::runs::{Exit, Failure, Registry};

/// Steps that viewers show of one code flow.
const MOST_STEPS: usize = 1_000;

/// The text of a SARIF file.
#[must_use]
pub fn sarif(findings: &Findings, registry: &Registry) -> String {
    let bad: Vec<&Certificate> = findings.certificates.iter().filter(|certificate| !certificate.ok).collect();
    let mut results: Vec<Value> = bad.iter().map(|certificate| result(certificate, registry)).collect();
    results.extend(findings.failures.iter().map(whole));
    let mut ids: Vec<String> = bad.iter().map(|certificate| rule_id(certificate)).collect();
    ids.extend(findings.failures.iter().map(|failure| rule_of(failure.exit).to_owned()));
    ids.sort();
    ids.dedup();
    let rules: Vec<Value> = ids.iter().map(|id| rule(id, registry)).collect();
    let driver = json!({
        "name": "lockstep-check",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let run = json!({
        "tool": { "driver": driver },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": { "SRCROOT": { "description": { "text": "The root of the workspace." } } },
        "results": results,
    });
    format!("{:#}\n", json!({ "$schema": SCHEMA_ADDRESS, "version": "2.1.0", "runs": [run] }))
}

const SCHEMA_ADDRESS: &str = "https://json.schemastore.org/sarif-2.1.0.json";

fn result(certificate: &Certificate, registry: &Registry) -> Value {
    let text = format!("{} {}", certificate.run, certificate.failure.as_deref().unwrap_or("fails"));
    let listed = location(&certificate.listed, "the run is listed here");
    let own = certificate.violated().and_then(|property| invariant(property, registry));
    let place = own.unwrap_or_else(|| listed.clone());
    let mut result = json!({
        "ruleId": rule_id(certificate),
        "level": "error",
        "message": { "text": text },
        "locations": [place],
        "relatedLocations": [listed],
        "partialFingerprints": { "lockstepRun/v1": format!("{}:{}", certificate.run, rule_id(certificate)) },
    });
    if let Some(found) = &certificate.counterexample {
        result["codeFlows"] = json!([code_flow(found, &certificate.listed)]);
    }
    result
}

fn whole(failure: &Failure) -> Value {
    let manifest = Place { file: "model/runs.toml".to_owned(), line: 1 };
    json!({
        "ruleId": rule_of(failure.exit),
        "level": "error",
        "message": { "text": failure.text },
        "locations": [location(&manifest, "the recorded runs")],
    })
}

fn code_flow(found: &Counterexample, listed: &Place) -> Value {
    let steps = found.steps.iter().enumerate().take(MOST_STEPS).map(|(index, step)| {
        let action = step.action.as_deref().unwrap_or("(start)");
        let mut text = format!("{index}. {action}: {}", step.changes.join("; "));
        if found.point_of_no_return == Some(index) {
            text += " (point of no return)";
        }
        json!({ "location": location(listed, &text), "executionOrder": index + 1 })
    });
    let steps: Vec<Value> = steps.collect();
    json!({ "message": { "text": found.ending }, "threadFlows": [{ "locations": steps }] })
}

/// The file of the invariant, for properties that are one.
fn invariant(property: &str, registry: &Registry) -> Option<Value> {
    let known = registry.properties.iter().find(|known| known.id == property)?;
    let file = format!("spec/src/invariant/{}.rs", property.replace('-', "_"));
    Some(location(&Place { file, line: 1 }, known.sentence))
}

fn location(place: &Place, text: &str) -> Value {
    json!({
        "physicalLocation": {
            "artifactLocation": { "uri": place.file, "uriBaseId": "SRCROOT" },
            "region": { "startLine": place.line },
        },
        "message": { "text": text },
    })
}

fn rule_id(certificate: &Certificate) -> String {
    let exit = Exit::of_code(certificate.exit).unwrap_or(Exit::Internal);
    certificate.violated().map_or_else(|| rule_of(exit).to_owned(), str::to_owned)
}

const fn rule_of(exit: Exit) -> &'static str {
    match exit {
        Exit::Vacuous => "vacuous",
        Exit::Moved => "moved",
        Exit::Budget => "no-verdict",
        Exit::NotFound => "not-found",
        Exit::Internal | Exit::Usage => "not-performed",
        Exit::Ok | Exit::Stuck | Exit::Safety | Exit::Liveness | Exit::Assertion => "violation",
    }
}

fn rule(id: &str, registry: &Registry) -> Value {
    let text = match (registry.sentence(id), id) {
        ("", "vacuous") => "A run that must hold reaches every witness and fires every kind of action.",
        ("", "moved") => "Recorded counts and files are those of the present sources.",
        ("", "no-verdict") => "Every run comes to a verdict.",
        ("", "not-found") => "A run that must fail fails.",
        ("", "not-performed") => "Every run can be performed and judged.",
        ("", _) => "No run violates a property that it must not violate.",
        (sentence, _) => sentence,
    };
    json!({ "id": id, "shortDescription": { "text": text }, "defaultConfiguration": { "level": "error" } })
}
