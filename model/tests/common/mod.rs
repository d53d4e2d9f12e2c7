//! The binary from outside.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The binary with `arguments`, with the manifest and the root in `folder` and nothing of the surroundings that it would look at.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-check"));
    command.args(arguments).arg("--manifest").arg(folder.join("runs.toml")).arg("--root").arg(folder);
    for variable in [
        "CLICOLOR_FORCE",
        "GITHUB_ACTIONS",
        "GITHUB_STEP_SUMMARY",
        "SLURM_ARRAY_TASK_ID",
        "JOB_COMPLETION_INDEX",
    ] {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn lockstep_check(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

pub(crate) fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[track_caller]
pub(crate) fn assert_exit(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", text_of(output));
}

/// Puts the committed manifest into `folder` as if it were of this build's specification, changed by `change`.
pub(crate) fn put_manifest(folder: &Path, change: fn(String) -> String) {
    let committed = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("runs.toml")).unwrap();
    let spec = format!("spec = \"{}\"", lockstep_spec::FINGERPRINT);
    let of_now = |line: &str| if line.starts_with("spec = ") { spec.clone() } else { line.to_owned() };
    let lines: Vec<String> = committed.lines().map(of_now).collect();
    fs::write(folder.join("runs.toml"), change(lines.join("\n") + "\n")).unwrap();
}
