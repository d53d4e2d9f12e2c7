//! The script for a machine with a GPU (`tests/device/run`), tried on the stand-ins: that it runs, tells a failure, ends in time, and
//! does not take a stand-in for a GPU.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lockstep_kernels::cuda::{Missing, collectives_available, device_count};
use lockstep_tests::places::{model_directory, workspace};
use lockstep_tests::process::{lives, wait_for};
use lockstep_tests::server::{Scratch, output};
use lockstep_tests::standin::Standin;
use serde_json::{Value, json};

use crate::common::{cache, standin};

const LOCKSTEP: &str = env!("CARGO_BIN_EXE_tested-lockstep");
const DEVICE_RANK: &str = env!("CARGO_BIN_EXE_device-rank");

/// A limit, in seconds, that is reached.
const SHORT: &str = "5";
/// What a run of that limit may take, with all that ends it on a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

/// Prints what the script at the first word finds in the cases of the second: margins, expected texts, found texts.
const COMPARISONS: &str = r#"
import importlib.machinery, importlib.util, json, sys
loader = importlib.machinery.SourceFileLoader("run", sys.argv[1])
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)
def told(margins, expected, found):
    try:
        return run.ties([{"prompt": "In", "margins": margins}], [expected], [found])
    except AssertionError as error:
        return str(error)
print(json.dumps([told(*case) for case in json.loads(sys.argv[2])]))
"#;

/// The script with these programs and sections, on as little as shows that it works.
fn script(scratch: &Scratch, device_rank: &str, sections: &str) -> Command {
    let programs = scratch.path("programs");
    std::fs::create_dir(&programs).unwrap();
    symlink(LOCKSTEP, programs.join("lockstep")).unwrap();
    symlink(device_rank, programs.join("device-rank")).unwrap();
    let mut command = scratch.command("python3", &[]);
    command.arg(workspace().join("tests/device/run"));
    command.arg("--programs").arg(programs).arg("--model").arg(model_directory());
    command.arg("--out").arg(scratch.path("out")).args(["--sections", sections]);
    command.args(["--prompts", "1", "--tokens", "3", "--limit", "100", "--unchecked"]);
    command
}

fn result(scratch: &Scratch, section: &str) -> Value {
    let text = std::fs::read(scratch.path("out").join(format!("{section}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Puts a program that bash runs in a place, instead of what is there.
fn replace(place: &Path, lines: &str) {
    // What is there may be a link to the shipped program.
    let _nothing_there = std::fs::remove_file(place);
    std::fs::write(place, format!("#!/usr/bin/env bash\n{lines}\n")).unwrap();
    std::fs::set_permissions(place, Permissions::from_mode(0o755)).unwrap();
}

/// A copy of the bundled model with one file of it changed.
fn model_with(folder: PathBuf, file: &str, from: &str, to: &str) -> PathBuf {
    std::fs::create_dir(&folder).unwrap();
    for entry in std::fs::read_dir(model_directory()).unwrap().map(Result::unwrap) {
        if entry.file_name() != file {
            symlink(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    let text = std::fs::read_to_string(model_directory().join(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    std::fs::write(folder.join(file), text.replacen(from, to, 1)).unwrap();
    folder
}

#[test]
fn prepared_sections_pass_on_the_stand_ins_and_say_so() {
    let scratch = Scratch::default();
    let sections = "doctor,kernels,tokens,graph,forwards,ahead,nccl_one,join_alone,nccl_two,abort,conventional,watchdog,graph_collective,latency";
    let mut command = script(&scratch, DEVICE_RANK, sections);
    let (code, lines, errors) = output(standin().lend(&mut command, 2));
    assert_eq!(code, 0, "{lines} {errors}");
    for section in sections.split(',') {
        let result = result(&scratch, section);
        assert_eq!((&result["state"], &result["device"]), (&"passed".into(), &"stand-in".into()), "{result}");
    }
    let computes = &result(&scratch, "tokens")["found"]["cuda"]["computes"];
    assert!(computes.as_str().unwrap().contains("CUDA devices 0"), "{computes}");
    assert_eq!(result(&scratch, "tokens")["found"]["ties"], json!([]));
    assert_eq!(result(&scratch, "doctor")["found"]["linked"], Value::Null);
}

#[test]
fn prepared_ranks_share_the_only_device_where_nccl_lets_them() {
    let scratch = Scratch::default();
    let mut command = script(&scratch, DEVICE_RANK, "nccl_two");
    let (code, lines, errors) = output(standin().lend(&mut command, 1));
    assert_eq!(code, 0, "{lines} {errors}");
    assert_eq!(result(&scratch, "nccl_two")["state"], "passed", "{lines}");
}

#[test]
fn prepared_failures_are_told_and_what_cannot_run_is_skipped() {
    let scratch = Scratch::default();
    let (code, lines, errors) =
        output(standin().lend(&mut script(&scratch, "/bin/false", "kernels,nccl_two"), 2));
    assert_eq!(code, 1, "{lines} {errors}");
    assert_eq!(
        [result(&scratch, "kernels"), result(&scratch, "nccl_two")].map(|one| one["state"].clone()),
        ["failed"; 2]
    );
    if device_count().is_err() {
        let scratch = Scratch::default();
        let (code, ..) = output(&mut script(&scratch, DEVICE_RANK, "kernels,nccl_one"));
        let result = result(&scratch, "nccl_one");
        assert_eq!(
            (code, &result["state"], &result["device"]),
            (0, &"skipped".into(), &"none".into()),
            "{result}"
        );
        assert!(Path::exists(&scratch.path("out/kernels.json")));
    }
}

/// Runs the script with a server that behaves like this, and leaves what it started in a process group of its own, as ranks are.
fn check_time_ends(serve: &str) {
    let scratch = Scratch::default();
    let mut command = script(&scratch, DEVICE_RANK, "tokens,graph");
    let left = scratch.path("left");
    let lines = format!(
        r#"[ $1 = doctor ] && exec {LOCKSTEP} "$@"
set -m
trap '' TERM
sleep 600 & echo $! > {}
{serve}
wait"#,
        left.display()
    );
    replace(&scratch.path("programs/lockstep"), &lines);
    let start = Instant::now();
    let (code, lines, errors) = output(standin().lend(command.args(["--limit", SHORT]), 2));
    assert!(start.elapsed() < PATIENCE, "{:?}: {lines} {errors}", start.elapsed());
    let [tokens, graph] = ["tokens", "graph"].map(|section| result(&scratch, section));
    assert_eq!(
        (code, &tokens["state"], &graph["state"]),
        (1, &"failed".into(), &"skipped".into()),
        "{lines}"
    );
    let reason = tokens["reason"].as_str().unwrap();
    assert!(reason.contains("was killed, not done within"), "{reason}");
    assert_eq!(graph["reason"], "no time is left");
    let pid: u32 = std::fs::read_to_string(left).unwrap().trim().parse().unwrap();
    wait_for("what the server started is killed", || !lives(pid));
}

#[test]
fn prepared_time_ends_for_a_server_that_is_never_ready() {
    check_time_ends("");
}

#[test]
fn prepared_time_ends_for_a_server_that_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    check_time_ends(&format!("echo lockstep: ready on http://{} and silent", silent.local_addr().unwrap()));
}

#[test]
fn prepared_comparison_tells_a_tie_from_a_difference() {
    let (expected, near, far) = (["In", " the", " end"], 0.001, 0.01);
    let cases = json!([
        [[near, near, near], expected, expected],
        [[far, near, far], expected, ["In", " a", " start"]],
        [[near, far, near], expected, ["In", " a", " end"]],
        [[near, near, near], expected, ["In", " the"]],
    ]);
    let script = workspace().join("tests/device/run");
    let scratch = Scratch::default();
    let mut command = scratch.command("python3", &["-B", "-c", COMPARISONS]);
    let (code, told, errors) = output(command.arg(script).arg(cases.to_string()));
    assert_eq!(code, 0, "{errors}");
    let told: Vec<Value> = serde_json::from_str(&told).unwrap();
    let tie = json!({"prompt": "In", "index": 1, "margin": near, "expected": " the", "found": " a"});
    assert_eq!(told[..2], [json!([]), json!([tie])]);
    for (told, part) in told[2..].iter().zip(["no ties: [{'prompt': 'In', 'index': 1", "3 and 2 tokens of 3"])
    {
        assert!(told.as_str().is_some_and(|text| text.starts_with(part)), "{told}");
    }
}

/// The devices' deployments serve a model with another constant, whose answer parts from the reference soon.
#[test]
fn prepared_tokens_that_differ_are_a_tie_only_where_the_reference_has_one() {
    for (margin, code, state) in [("0.0665", 1, "failed"), ("0.0015", 0, "passed")] {
        let scratch = Scratch::default();
        let model = model_with(scratch.path("model"), "golden.json", "0.0665", margin);
        let other = model_with(scratch.path("other"), "config.json", "10000.0", "10.0");
        let mut command = script(&scratch, DEVICE_RANK, "tokens");
        let (from, to) = (model.display(), other.display());
        let lines = format!(
            r#"from={from} to={to}
case "$*" in *'--device cuda'*) set -- "${{@/$from/$to}}" ;; esac
exec {LOCKSTEP} "$@""#
        );
        replace(&scratch.path("programs/lockstep"), &lines);
        command.arg("--model").arg(&model);
        let (ended, lines, errors) = output(standin().lend(&mut command, 2));
        let result = result(&scratch, "tokens");
        assert_eq!((ended, &result["state"]), (code, &state.into()), "{lines} {errors}");
        let told = result["reason"].as_str().map(str::to_owned);
        let told = told.unwrap_or_else(|| result["found"]["ties"].to_string());
        assert!(told.contains("In the beginning") && told.contains(margin), "{told}");
    }
}

#[test]
fn prepared_nccl_is_found_under_the_name_that_its_packages_install() {
    let misnamed = Standin::with_nccl_misnamed(cache());
    let scratch = Scratch::default();
    let (code, lines, errors) =
        output(misnamed.lend(&mut script(&scratch, DEVICE_RANK, "doctor,nccl_one"), 1));
    assert_eq!((code, &result(&scratch, "nccl_one")["state"]), (0, &"passed".into()), "{lines} {errors}");
    let linked = &result(&scratch, "doctor")["found"]["linked"];
    assert!(linked["library"].as_str().unwrap().ends_with("standin-misnamed/libnccl.so.2"), "{linked}");
    assert_eq!(scratch.left_behind(), 0, "{linked}");
    if collectives_available() == Err(Missing::CollectiveLibrary) {
        let scratch = Scratch::default();
        let folder = scratch.path("site/nvidia/nccl/lib");
        std::fs::create_dir_all(&folder).unwrap();
        let library = folder.join("libnccl.so.2");
        symlink(cache().join("standin-misnamed/libnccl.so.2"), &library).unwrap();
        let mut command = script(&scratch, DEVICE_RANK, "doctor,nccl_one");
        command.env("PYTHONPATH", scratch.path("site"));
        let (code, lines, errors) = output(Standin::without_nccl(cache()).lend(&mut command, 1));
        assert_eq!((code, &result(&scratch, "nccl_one")["state"]), (0, &"passed".into()), "{lines} {errors}");
        let linked = &result(&scratch, "doctor")["found"]["linked"];
        assert_eq!(linked["library"].as_str().unwrap(), library.to_str().unwrap());
    }
}

/// The script's answer with a `compute-sanitizer` that runs what is behind its flags, but for words that match a pattern; and its words.
fn sanitized(scratch: &Scratch, pattern: &str, instead: &str, limit: &str) -> (i32, Value, Vec<String>) {
    let mut command = script(scratch, DEVICE_RANK, "sanitizer");
    let (folder, words) = (scratch.path("path"), scratch.path("words"));
    std::fs::create_dir(&folder).unwrap();
    let lines = format!(
        r#"echo "$@" >> {}
case "$*" in {pattern}) {instead} ;; esac
while [ "${{1#--}}" != "$1" ]; do shift 2; done
exec "$@""#,
        words.display()
    );
    replace(&folder.join("compute-sanitizer"), &lines);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).unwrap()).args(["--limit", limit]);
    let (code, ..) = output(standin().lend(&mut command, 1));
    let words = std::fs::read_to_string(words).unwrap().lines().map(str::to_owned).collect();
    (code, result(scratch, "sanitizer"), words)
}

#[test]
fn prepared_sanitizers_watch_the_sample_and_the_engines_forwards() {
    let scratch = Scratch::default();
    let (code, result, words) = sanitized(&scratch, "nothing", "", "100");
    assert_eq!((code, &result["state"]), (0, &"passed".into()), "{result}");
    let program = scratch.path("programs/device-rank").display().to_string();
    let forwards = format!("forwards 0 {}", model_directory().display());
    let run = |tool: &str, what: &str| format!("--tool {tool} --error-exitcode 9 {program} {what}");
    let tools = ["memcheck", "racecheck", "synccheck", "initcheck"];
    let expected = tools.map(|tool| run(tool, "kernels 0")).into_iter();
    let expected = expected.chain(["memcheck", "racecheck"].map(|tool| run(tool, &forwards)));
    assert_eq!(words, expected.collect::<Vec<_>>());
    assert!(result["found"]["racecheck of forwards"].as_str().unwrap().contains("tokens_equal"), "{result}");
}

#[test]
fn prepared_sanitizers_findings_are_failures() {
    for pattern in ["*racecheck*kernels*", "*memcheck*forwards*"] {
        let scratch = Scratch::default();
        let (code, result, _) = sanitized(&scratch, pattern, "echo '== Invalid write'; exit 9", "100");
        assert_eq!((code, &result["state"]), (1, &"failed".into()), "{result}");
        let reason = result["reason"].as_str().unwrap();
        assert!(reason.contains("ended with 9: == Invalid write"), "{reason}");
    }
}

#[test]
fn prepared_sanitizers_that_are_too_slow_for_the_engine_are_not_done() {
    for (finding, code, state) in [("", 0, "passed"), ("========= Invalid read", 1, "failed")] {
        let scratch = Scratch::default();
        let slow = format!("echo ========= COMPUTE-SANITIZER; echo {finding}; exec sleep 600");
        let start = Instant::now();
        let (ended, result, _) = sanitized(&scratch, "*memcheck*forwards*", &slow, SHORT);
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        assert_eq!((ended, &result["state"]), (code, &state.into()), "{result}");
        for tool in ["memcheck", "racecheck"] {
            let told = result["found"][format!("{tool} of forwards")].as_str();
            assert!(code == 1 || told.is_some_and(|told| told.starts_with("not done: ")), "{result}");
        }
    }
}
