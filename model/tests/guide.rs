//! The guide, taken at its word: its commands are run in their order, what they print is compared, its changes are made, and the code that
//! it shows must be in the file it speaks of.

#![expect(clippy::unwrap_used, reason = "a test")]

mod schema;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const GUIDE: &str = include_str!("../../docs/guide.md");

const EXAMPLES: [&str; 5] =
    ["dummy_batches", "abort_consensus", "elastic_join", "expert_pipeline", "speculative_decoding"];

/// Only the library's own two packages are built anew here: quickly, since what is explored is small.
const UNOPTIMISED: &str =
    "[profile.dev.package]\nlockstep-model = { opt-level = 0 }\nlockstep-spec = { opt-level = 0 }\n";

/// A fenced block: its language and its text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let fenced = GUIDE.split("```").skip(1).step_by(2);
    fenced.map(|block| block.split_once('\n').unwrap()).collect()
}

/// Someone who follows the guide: the folder they are in, and the folder in which they began.
struct Reader {
    at: PathBuf,
    began: PathBuf,
}

impl Reader {
    /// Runs a block's commands in one shell and compares what it prints.
    fn run(&mut self, block: &str) {
        let (commands, expected): (Vec<&str>, Vec<&str>) =
            block.lines().partition(|line| line.starts_with("$ "));
        let script: String = commands.iter().map(|line| format!("{}\n", &line[2..])).collect();
        let whereabouts = self.began.join("whereabouts");
        let script = format!("exec 2>&1\n{script}pwd > '{}'\n", whereabouts.display());
        let output = shell(&self.at, &script);
        compare(&expected, &output);
        self.at = PathBuf::from(fs::read_to_string(whereabouts).unwrap().trim());
        self.pin();
    }

    /// Takes the versions of this workspace, so that nothing has to be resolved or fetched.
    fn pin(&self) {
        let lock = self.at.join("Cargo.lock");
        if self.at != self.began && !lock.exists() {
            fs::copy(package().join("../Cargo.lock"), lock).unwrap();
        }
    }

    /// Makes a change: lines with `-` go, lines with `+` come in their place.
    fn change(&self, block: &str) {
        let of = |sign: char| -> String {
            block.lines().filter_map(|line| line.strip_prefix(sign)).map(|line| format!("{line}\n")).collect()
        };
        let old = self.program();
        assert_eq!(old.matches(&of('-')).count(), 1, "the change applies in one place:\n{block}");
        fs::write(self.at.join("src/main.rs"), old.replace(&of('-'), &of('+'))).unwrap();
    }

    fn program(&self) -> String {
        fs::read_to_string(self.at.join("src/main.rs")).unwrap()
    }
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a script with `lockstep-check` and this workspace's build folder at hand.
fn shell(at: &Path, script: &str) -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_lockstep-check")).parent().unwrap();
    let path = env::var_os("PATH").unwrap();
    let paths = env::join_paths([binaries.to_owned()].into_iter().chain(env::split_paths(&path))).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(at).env("PATH", paths).env("COLUMNS", "100");
    command.env("CARGO_TARGET_DIR", binaries.parent().unwrap()).env("CARGO_NET_OFFLINE", "true");
    command.env_remove("CLICOLOR_FORCE").env_remove("RUSTFLAGS");
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Compares line by line; `…` stands for anything in a line, and for any lines where it is one.
#[track_caller]
fn compare(expected: &[&str], output: &str) {
    let mut printed = output.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let mut skips = false;
    for line in expected.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()) {
        let found = match (line == "…", skips) {
            (true, _) => true,
            (false, true) => printed.by_ref().any(|printed| matches(line, printed)),
            (false, false) => printed.next().is_some_and(|printed| matches(line, printed)),
        };
        assert!(found, "the guide expects\n{line}\nin\n{output}");
        skips = line == "…";
    }
    assert!(skips || printed.next().is_none(), "the guide says nothing of the end of\n{output}");
}

fn matches(expected: &str, printed: &str) -> bool {
    match expected.split_once('…') {
        Some((first, last)) => {
            printed.len() >= first.len() + last.len() && printed.starts_with(first) && printed.ends_with(last)
        }
        None => printed == expected,
    }
}

#[test]
fn guide_is_true_from_nothing_to_a_proof() {
    let folder = tempfile::tempdir().unwrap();
    let began = folder.path().canonicalize().unwrap();
    fs::create_dir(began.join(".cargo")).unwrap();
    fs::write(began.join(".cargo/config.toml"), UNOPTIMISED).unwrap();
    let mut reader = Reader { at: began.clone(), began };
    for (language, block) in blocks() {
        match language {
            "console" => reader.run(block),
            "diff" => reader.change(block),
            "rust" => assert!(reader.program().contains(block), "the program has no\n{block}"),
            other => panic!("what is to be done with a block of `{other}`?"),
        }
    }
    assert!(reader.program().contains("if self.all_ready {"), "the guide ends with the proof");
}

#[test]
fn guide_names_files_that_exist() {
    for name in EXAMPLES {
        let name = &format!("{name}.rs");
        assert!(GUIDE.contains(name) && package().join("examples").join(name).is_file(), "{name}");
    }
}

/// One rank that goes astray at one site is noticed; where it is not, the exit code says so.
#[test]
fn examples_notice_ranks_that_go_astray() {
    let binaries = Path::new(env!("CARGO_BIN_EXE_lockstep-check")).parent().unwrap();
    let astray = |name: &str| {
        let output = Command::new(binaries.join("examples").join(name)).arg("--astray").output().unwrap();
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "",
            "what is caught and told is not printed, too"
        );
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, told) = astray("dummy_batches");
    assert_eq!((code, told.lines().count()), (Some(0), 6), "{told}");
    assert!(told.contains("waves: rank 1 skips Step: violates no-stuck"), "{told}");
    assert!(told.contains("waves: rank 1 enters Step with another shape: violates matched"), "{told}");
    let (code, told) = astray("expert_pipeline");
    assert_eq!((code, told.matches("NOTHING NOTICES").count()), (Some(20), 1), "{told}");
    let (code, told) = astray("abort_consensus");
    assert!(code == Some(20) && told.contains("panics: index out of bounds"), "{told}");
}

#[test]
fn examples_that_must_fail_are_not_led_astray() {
    let refused = example("dummy_batches", &["--astray", "own-queue"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("own-queue must not"), "{said}");
}

/// The examples are built with the tests of their package, beside its binaries.
#[test]
fn examples_come_out_as_they_say() {
    let binaries = Path::new(env!("CARGO_BIN_EXE_lockstep-check")).parent().unwrap();
    for name in EXAMPLES {
        let output = Command::new(binaries.join("examples").join(name)).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{name}: {text}");
        assert!(text.contains("✗") && text.contains("holds") && text.contains("all as expected"), "{text}");
    }
}

/// The guard of an example is the cell of local evidence by which its ranks went different ways, and no other cell that differs.
#[test]
fn examples_name_the_guard_that_diverged() {
    let binaries = Path::new(env!("CARGO_BIN_EXE_lockstep-check")).parent().unwrap();
    let named = |example: &str, run: &str| -> Vec<String> {
        let mut command = Command::new(binaries.join("examples").join(example));
        let output = command.arg(run).env("COLUMNS", "400").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let told = text.lines().filter_map(|line| line.split_once("the guard that diverged: "));
        told.map(|(_, guard)| guard.to_owned()).collect()
    };
    let aborted = "aborted? rank 0: true (step 5), rank 1: false (step 7)";
    assert_eq!(named("abort_consensus", "own-abort"), [aborted]);
    let heard = "heard? rank 0: true (step 2), rank 1: false (step 3), rank 2: true (step 5)";
    assert_eq!(named("elastic_join", "own-decision"), [heard]);
    let queued = "queued? rank 0: 1 (step 2), rank 1: 0 (step 3)";
    assert_eq!(named("dummy_batches", "own-queue"), [queued]);
    let draft = "draft? rank 0: Kept(0) (step 5), rank 1: Kept(1) (step 8)";
    assert_eq!(named("speculative_decoding", "own-length")[0], draft);
    let draft = "draft? rank 0: Accepted(0) (step 5), rank 1: Kept(2) (step 8)";
    assert_eq!(named("speculative_decoding", "full-is-sure")[0], draft);
    let fired = "timer fired? rank 0: true (step 11), rank 1: true (step 16), rank 2: true (step 20), rank 3: false (step 22)";
    assert_eq!(named("expert_pipeline", "own-timer"), [fired]);
}

/// A trace of an example is drawn by `lockstep-check`, and taken again by the example alone; it says which protocol it is of.
#[test]
fn examples_write_traces_that_say_what_they_are_of() {
    let folder = tempfile::tempdir().unwrap();
    let said = |command: &str| shell(folder.path(), &format!("{command} 2>&1; echo exit $?"));
    let example =
        Path::new(env!("CARGO_BIN_EXE_lockstep-check")).parent().unwrap().join("examples/dummy_batches");
    let example = example.display();
    let wrote = said(&format!("{example} own-queue --trace t.json"));
    assert!(wrote.contains("wrote t.json") && wrote.ends_with("exit 0\n"), "{wrote}");
    assert!(said(&format!("{example} --replay t.json")).contains("the same violation"));
    assert!(
        said("lockstep-check explain t.json --format json")
            .contains("\"params\": \"DataParallel(OwnQueue, 2, 1)\"")
    );
    let refused = said("lockstep-check explain t.json --format test");
    assert!(refused.contains("is no run of lockstep") && refused.ends_with("exit 2\n"), "{refused}");
}

fn example(name: &str, arguments: &[&str]) -> Output {
    let binaries = Path::new(env!("CARGO_BIN_EXE_lockstep-check")).parent().unwrap();
    let mut command = Command::new(binaries.join("examples").join(name));
    command.args(arguments).env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY").output().unwrap()
}

/// What `check` leaves behind for other tools, the program of somebody's own protocol leaves behind as well.
#[test]
fn examples_leave_behind_what_other_tools_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (junit, sarif, certificates) = (path("junit.xml"), path("x.sarif"), path("out"));
    let arguments = ["--junit", &junit, "--sarif", &sarif, "--certificates", &certificates];
    let made = example("dummy_batches", &[&arguments[..], &["--most-memory", "8GiB"]].concat());
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let (junit, sarif) = (read("junit.xml"), read("x.sarif"));
    assert!(junit.contains("<testcase ") && junit.contains("\"waves\""), "{junit}");
    assert!(sarif.contains("\"version\": \"2.1.0\""), "{sarif}");
    let schema = fs::read_to_string(package().join("../docs/certificate.schema.json")).unwrap();
    let certificate: Value = serde_json::from_str(&read("out/waves.json")).unwrap();
    assert_eq!(schema::faults(&serde_json::from_str(&schema).unwrap(), &certificate), [""; 0]);
    let [states, between] =
        ["states", "boundary_states"].map(|count| certificate["size"][count].as_u64().unwrap());
    assert!(0 < between && between < states, "{between} of {states}");
}

#[test]
fn examples_give_up_politely() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("waves.checkpoint").display().to_string();
    let given_up = example("dummy_batches", &["waves", "--most-memory", "1M"]);
    let said = String::from_utf8(given_up.stdout).unwrap();
    assert!(given_up.status.code() == Some(22) && said.contains("the budget of memory is spent"), "{said}");
    let stopped = example("dummy_batches", &["waves", "--most-states", "20", "--checkpoint", &kept]);
    let said = String::from_utf8(stopped.stderr).unwrap();
    assert!(stopped.status.code() == Some(22) && said.contains("waves --resume"), "{said}");
    assert_eq!(example("dummy_batches", &["waves", "--resume", &kept]).status.code(), Some(0));
    let several = example("dummy_batches", &["--trace", &kept]);
    let said = String::from_utf8(several.stderr).unwrap();
    assert!(several.status.code() == Some(2) && said.contains("name one, and only one"), "{said}");
    let said = String::from_utf8(example("dummy_batches", &["--help"]).stdout).unwrap();
    for option in ["--most-memory", "--junit", "--sarif", "--certificates", "--artifacts", "--checkpoint"] {
        assert!(said.contains(option), "{option}: {said}");
    }
}

#[test]
fn new_refuses_what_it_cannot_name_or_would_overwrite() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &str, reason: &str| {
        let output = shell(folder.path(), &format!("lockstep-check new {arguments} 2>&1; echo exit $?"));
        assert!(output.contains(reason) && output.ends_with("exit 2\n"), "{output}");
    };
    refused("Ready", "`Ready` cannot name a crate");
    refused("9lives", "`9lives` cannot name a crate");
    refused("ready --path .", "exists: choose another name");
}
