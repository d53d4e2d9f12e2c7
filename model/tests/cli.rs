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

/// Puts the committed manifest into `folder`, changed by `change`.
fn put_manifest(folder: &Path, change: fn(String) -> String) {
    let committed = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("runs.toml")).unwrap();
    fs::write(folder.join("runs.toml"), change(committed)).unwrap();
}

const RUN: &str = "conventional-local-run-or-idle-normal";

#[test]
fn cli_notices_what_moved() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    assert_exit(&lockstep_check(folder.path(), &["check", RUN]), 0);
    put_manifest(folder.path(), |text| text.replace("unique = ", "unique = 1"));
    let stale = lockstep_check(folder.path(), &["check", RUN]);
    assert_exit(&stale, 21);
    assert!(text_of(&stale).contains('%'), "{}", text_of(&stale));
    put_manifest(folder.path(), |_| String::new());
    assert_exit(&lockstep_check(folder.path(), &["check", RUN]), 21);
}

#[test]
fn cli_gives_up_without_a_pass() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let budget = ["check", "conventional-base-normal", "--most-states", "10"];
    assert_exit(&lockstep_check(folder.path(), &budget), 22);
}
