//! The commands from outside.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::RUN;

const HOLDS: &str = "conventional-metadata-before-reduce-normal";

fn lockstep_check(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-check"));
    command.args(arguments).current_dir(folder).env("COLUMNS", "100").env_remove("CLICOLOR_FORCE");
    command.output().unwrap()
}

#[track_caller]
fn said(output: &Output, code: i32) -> String {
    let text =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

#[test]
fn commands_write_explain_and_replay_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], code| said(&lockstep_check(folder.path(), arguments), code);
    assert!(run(&["check", RUN, "--trace", "t.json"], 0).contains("wrote t.json"));
    let text = run(&["explain", "t.json"], 0);
    assert_eq!(text, run(&["explain", RUN], 0), "from the file or explored on the spot");
    assert!(text.contains("point of no return") && !text.contains('\u{1b}'), "{text}");
    assert!(run(&["replay", "t.json"], 0).contains("the same violation"));
    run(&["explain", "t.json", "--format", "svg", "--output", "t.svg"], 0);
    assert!(fs::read_to_string(folder.path().join("t.svg")).unwrap().contains("</svg>"));
}

#[test]
fn commands_show_only_what_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], code| said(&lockstep_check(folder.path(), arguments), code);
    assert!(run(&["check", RUN, "--show"], 0).contains("point of no return"));
    assert!(!run(&["check", RUN], 0).contains("point of no return"));
    let holds = run(&["check", HOLDS, "--trace", "t.json"], 0);
    assert!(holds.contains("there is no counterexample; t.json is not written"), "{holds}");
    assert!(!folder.path().join("t.json").exists());
    assert!(run(&["explain", HOLDS], 23).contains("has no counterexample to explain (holds)"));
}

#[test]
fn commands_refuse_what_is_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], code| said(&lockstep_check(folder.path(), arguments), code);
    assert!(run(&["explain", "nothing"], 2).contains("neither a file nor a run"));
    assert!(run(&["replay", "nothing.json"], 2).contains("cannot read nothing.json"));
    fs::write(folder.path().join("binary"), [0xff, 0xfe, 0]).unwrap();
    assert!(run(&["replay", "binary"], 2).contains("it is no text"));
    fs::write(folder.path().join("cut.json"), "{\"format\": \"lockstep-trace\",").unwrap();
    assert!(run(&["explain", "cut.json"], 2).contains("no whole trace"));
    assert!(run(&["check", "--trace", "t.json"], 2).contains("one run"));
    assert!(run(&["check", RUN, "--trace", "binary/below"], 2).contains("cannot write binary/below"));
}

#[test]
fn commands_say_where_a_trace_diverges() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], code| said(&lockstep_check(folder.path(), arguments), code);
    run(&["check", RUN, "--trace", "t.json"], 0);
    let file = folder.path().join("t.json");
    let written = fs::read_to_string(&file).unwrap();
    fs::write(&file, written.replace("rank 1 turns", "rank 1 waits")).unwrap();
    assert!(run(&["replay", "t.json"], 21).contains("diverges at step 4"));
    fs::write(&file, written.replace("\"spec\": \"", "\"spec\": \"0")).unwrap();
    let warned = run(&["replay", "t.json"], 0);
    assert!(warned.contains("warning: the trace is of another specification"), "{warned}");
}

/// The trace of a protocol that is not in the catalogue is drawn, and neither repeated here nor made a test.
#[test]
fn commands_send_a_foreign_trace_to_the_program_that_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], code| said(&lockstep_check(folder.path(), arguments), code);
    run(&["check", RUN, "--trace", "t.json"], 0);
    let file = folder.path().join("t.json");
    let written = fs::read_to_string(&file).unwrap();
    fs::write(&file, written.replace(RUN, "own-timer")).unwrap();
    assert!(run(&["explain", "t.json"], 0).contains("point of no return"));
    let refused = run(&["explain", "t.json", "--format", "test"], 2);
    assert!(refused.contains("--replay FILE of the program that has it"), "{refused}");
    let refused = run(&["replay", "t.json"], 2);
    assert!(refused.contains("with the one that wrote it"), "{refused}");
}
