//! The binary from outside, whatever the registry lists.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn lockstep_check(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-check"));
    command.args(arguments).arg("--manifest").arg(folder.join("runs.toml")).arg("--root").arg(folder);
    command.env_remove("CLICOLOR_FORCE").output().unwrap()
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[track_caller]
fn assert_exit(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", text_of(output));
}

#[test]
fn cli_refuses_what_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    assert_exit(&lockstep_check(folder.path(), &["check", "--tier", "yearly"]), 2);
    let unknown = lockstep_check(folder.path(), &["check", "no-such-run"]);
    assert_exit(&unknown, 2);
    assert!(text_of(&unknown).contains("no run is called `no-such-run`"));
    assert_exit(&lockstep_check(folder.path(), &["check"]), 70);
}

#[test]
fn cli_lists_runs() {
    let folder = tempfile::tempdir().unwrap();
    let listed = lockstep_check(folder.path(), &["list"]);
    assert_exit(&listed, 0);
    assert!(!listed.stdout.is_empty());
}

#[test]
fn cli_records_checks_and_notices_what_moved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_exit(&lockstep_check(path, &["record", "--check"]), 21);
    assert!(!path.join("runs.toml").exists(), "a comparison writes nothing");
    assert_exit(&lockstep_check(path, &["record"]), 0);
    assert_exit(&lockstep_check(path, &["record", "--check"]), 0);
    assert_exit(&lockstep_check(path, &["check"]), 0);

    let recorded = fs::read_to_string(path.join("runs.toml")).unwrap();
    fs::write(path.join("runs.toml"), recorded.replacen("unique = ", "unique = 1", 1)).unwrap();
    let moved = lockstep_check(path, &["check", "--json"]);
    assert_exit(&moved, 21);
    let first: serde_json::Value =
        serde_json::from_slice(moved.stdout.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    assert_eq!(first["exit"], 21);
    assert_exit(&lockstep_check(path, &["record", "--check"]), 21);

    fs::write(path.join("runs.toml"), recorded).unwrap();
    fs::write(path.join("CHECKS.md"), "edited by hand").unwrap();
    let stale = lockstep_check(path, &["record", "--check"]);
    assert_exit(&stale, 21);
    assert!(text_of(&stale).contains("CHECKS.md"));
}

#[test]
fn cli_gives_up_without_a_pass() {
    let folder = tempfile::tempdir().unwrap();
    assert_exit(&lockstep_check(folder.path(), &["record"]), 0);
    assert_exit(&lockstep_check(folder.path(), &["check", "--most-states", "1"]), 22);
}
