//! The direction of dependencies: `kernels ← runtime → spec ← model`; `tests → all`. spec sees nobody and needs serde alone.

use std::collections::BTreeSet;
use std::process::Command;

use lockstep_tests::places::workspace;
use lockstep_tests::server::output;
use serde_json::Value;

/// The edges that may be, from the dependent package to the other.
const ALLOWED: [(&str, &str); 7] = [
    ("lockstep-model", "lockstep-spec"),
    ("lockstep-runtime", "lockstep-kernels"),
    ("lockstep-runtime", "lockstep-spec"),
    ("lockstep-tests", "lockstep-kernels"),
    ("lockstep-tests", "lockstep-model"),
    ("lockstep-tests", "lockstep-runtime"),
    ("lockstep-tests", "lockstep-spec"),
];

const MEMBERS: [&str; 5] =
    ["lockstep-kernels", "lockstep-model", "lockstep-runtime", "lockstep-spec", "lockstep-tests"];

/// A declared dependency: of which package, on which, of which kind.
struct Edge {
    from: String,
    to: String,
    kind: String,
}

fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--offline", "--no-deps"]).current_dir(workspace());
    let (code, metadata, errors) = output(&mut command);
    assert_eq!(code, 0, "{errors}");
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn edges() -> Vec<Edge> {
    let of_package = |package: &Value| -> Vec<Edge> {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let edge = |to: &Value| Edge {
            from: text(&package["name"]),
            to: text(&to["name"]),
            kind: text(&to["kind"]),
        };
        dependencies.map(edge).collect()
    };
    packages().iter().flat_map(of_package).collect()
}

#[test]
fn dependencies_between_members_have_one_direction() {
    let members: BTreeSet<String> = packages().iter().map(|package| text(&package["name"])).collect();
    assert_eq!(
        members,
        MEMBERS.map(str::to_owned).into(),
        "a member more or less: decide what it may depend on"
    );
    for Edge { from, to, .. } in edges().iter().filter(|edge| members.contains(&edge.to)) {
        assert!(
            ALLOWED.contains(&(from.as_str(), to.as_str())),
            "{from} may not depend on {to}, not even in its tests"
        );
    }
}

#[test]
fn dependencies_of_spec_are_serde_alone() {
    let of_spec = edges().into_iter().filter(|edge| edge.from == "lockstep-spec" && edge.kind != "dev");
    let names: Vec<String> = of_spec.map(|edge| edge.to).collect();
    assert_eq!(names, ["serde"]);
}
