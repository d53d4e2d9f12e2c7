//! The binary from outside, whatever the registry lists.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::process::Stdio;

use common::{assert_exit, command, lockstep_check, put_manifest, text_of};

#[test]
fn cli_refuses_what_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    assert_exit(&lockstep_check(folder.path(), &["check", "--tier", "yearly"]), 2);
    let unknown = lockstep_check(folder.path(), &["check", "no-such-run"]);
    assert_exit(&unknown, 2);
    assert!(text_of(&unknown).contains("no run is called `no-such-run`; `lockstep-check list`"));
    let part = lockstep_check(folder.path(), &["check", "crash-epochs"]);
    assert_exit(&part, 2);
    assert!(text_of(&part).contains("no run is called `crash-epochs`, but epochs-crash-unnoticed; "));
    assert_exit(&lockstep_check(folder.path(), &["check"]), 70);
}

#[test]
fn cli_lists_runs() {
    let folder = tempfile::tempdir().unwrap();
    let listed = lockstep_check(folder.path(), &["list"]);
    assert_exit(&listed, 0);
    let tier = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let tiers: std::collections::BTreeSet<String> = text_of(&listed).lines().filter_map(tier).collect();
    assert!(tiers.iter().eq(["nightly", "pr", "quick"]), "each tier has runs of its own: {tiers:?}");
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
    for (budget, most) in [("--most-states", "10"), ("--most-seconds", "0"), ("--most-memory", "1M")] {
        let given_up = lockstep_check(folder.path(), &["check", "conventional-base-normal", budget, most]);
        assert_exit(&given_up, 22);
        let text = text_of(&given_up);
        let name = budget.trim_start_matches("--most-").replace("seconds", "time");
        assert!(text.contains(&format!("not expanded: the budget of {name} is spent")), "{text}");
        assert!(text.contains("no verdict") && text.contains("1 run, not as expected;"), "{text}");
    }
}

#[test]
fn cli_refuses_budgets_it_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    assert_exit(&lockstep_check(folder.path(), &["check", "--most-memory", "much"]), 2);
    assert_exit(&lockstep_check(folder.path(), &["check", "--most-seconds", "soon"]), 2);
}

#[test]
fn cli_stays_silent_beside_json() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let output = lockstep_check(folder.path(), &["check", "--json", RUN]);
    assert_exit(&output, 0);
    assert!(output.stderr.is_empty(), "{}", text_of(&output));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["ok"], &line["found"]["verdict"]), (&true.into(), &"fault".into()));
    assert_eq!(line.get("story"), None);
    let traced = lockstep_check(folder.path(), &["check", "--json", "--show", RUN]);
    let traced: serde_json::Value = serde_json::from_slice(&traced.stdout).unwrap();
    assert_eq!(
        traced["story"]["scenes"].as_array().map(Vec::len),
        traced["counterexample"]["steps"].as_array().map(Vec::len)
    );
}

#[test]
fn cli_estimates_known_runs_within_its_own_range() {
    let folder = tempfile::tempdir().unwrap();
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recorded = lockstep_model::runs::Manifest::read(&package.join("runs.toml")).unwrap();
    std::fs::copy(package.join("levels.toml"), folder.path().join("levels.toml")).unwrap();
    for run in ["decode-2x2-3p-aborts-handshakes-normal", "decode-3x1-3p-aborts-transfers-normal"] {
        let states = recorded.find(run).unwrap().unique;
        let look = (states * 3 / 10).to_string();
        let estimated = lockstep_check(folder.path(), &["estimate", run, "--json", "--most-states", &look]);
        assert_exit(&estimated, 0);
        let line: serde_json::Value = serde_json::from_slice(&estimated.stdout).unwrap();
        let (least, most) = (line["least_states"].as_u64().unwrap(), line["most_states"].as_u64().unwrap());
        let likely = line["states"].as_u64().unwrap();
        assert!(least <= states && states <= most, "{run} has {states} states: {line}");
        assert!(likely * 2 >= states && likely <= states * 2, "{run} has {states} states: {line}");
        assert!(most < least * 8, "{line}");
        assert_eq!(line["exact"], false);
    }
    std::fs::remove_file(folder.path().join("levels.toml")).unwrap();
    let run = ["estimate", "decode-3x1-3p-aborts-transfers-normal", "--most-states", "60000"];
    let unlearned = lockstep_check(folder.path(), &run);
    assert_exit(&unlearned, 22);
    assert!(text_of(&unlearned).contains("no estimate"), "{}", text_of(&unlearned));
}

#[test]
fn cli_estimate_is_exact_or_none_where_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let exact = lockstep_check(folder.path(), &["estimate", "prefill-2x1-deadlines-normal"]);
    assert_exit(&exact, 0);
    assert!(text_of(&exact).contains("444 exactly"), "{}", text_of(&exact));
    let none =
        lockstep_check(folder.path(), &["estimate", "conventional-base-normal", "--most-states", "100"]);
    assert_exit(&none, 22);
    assert!(text_of(&none).contains("no estimate"), "{}", text_of(&none));
}

const WALKED: &str = "decode-mutant-loses-pages";

#[test]
fn cli_sim_finds_the_same_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let walks = ["1", "3"].map(|threads| {
        let arguments = ["sim", WALKED, "--seeds", "20", "--steps", "100", "--json", "--threads", threads];
        let output = lockstep_check(folder.path(), &arguments);
        (output.status.code(), output.stdout)
    });
    assert_eq!(walks[0], walks[1]);
    let line: serde_json::Value = serde_json::from_slice(&walks[0].1).unwrap();
    assert_eq!((walks[0].0, &line["found"]["property"]), (Some(0), &"pages-sound".into()), "{line}");
    assert!(line["story"]["scenes"].as_array().is_some_and(|scenes| scenes.len() > 2));
}

/// What walks missed in ten times as many steps while they could go round in circles.
#[test]
fn cli_sim_gets_out_of_small_loops() {
    let folder = tempfile::tempdir().unwrap();
    for run in
        ["conventional-transfer-skip-local-queue-normal", "conventional-transfer-skip-local-queue-overlap"]
    {
        let found =
            lockstep_check(folder.path(), &["sim", run, "--seeds", "10", "--steps", "10000", "--json"]);
        assert_exit(&found, 0);
        let line: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        assert_eq!(line["found"]["property"], "matched", "{line}");
    }
}

#[test]
fn cli_sim_never_says_holds() {
    let folder = tempfile::tempdir().unwrap();
    let walk = |arguments: &[&str]| {
        lockstep_check(folder.path(), &[&["sim", "--seeds", "5", "--steps", "300"], arguments].concat())
    };
    let quiet = walk(&["conventional-base-normal"]);
    assert_exit(&quiet, 0);
    let text = text_of(&quiet);
    assert!(text.contains("no violation in 1,500 steps of 5 seeds") && !text.contains("holds"), "{text}");
    assert_exit(&walk(&["agreed-mutant-never-releases"]), 23);
    let late = walk(&["conventional-base-normal", "--most-seconds", "0"]);
    assert_exit(&late, 22);
    assert!(
        text_of(&late).contains("of 5 seeds: ") || text_of(&late).contains("the budget of time is spent")
    );
    assert_exit(&walk(&["no-such-run"]), 2);
    assert_exit(&walk(&["conventional-base-normal", "--seeds", "0"]), 2);
}

#[test]
fn cli_refuses_a_manifest_with_a_run_twice() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| {
        let entry = text.split("[[run]]").nth(1).unwrap();
        format!("{text}\n[[run]]{entry}")
    });
    let refused = lockstep_check(folder.path(), &["check", RUN]);
    assert_exit(&refused, 2);
    assert!(text_of(&refused).contains("has two entries of"), "{}", text_of(&refused));
}

#[test]
fn cli_sim_leaves_a_trace_that_replays() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let walk = |run: &str| {
        let arguments = ["sim", run, "--seeds", "20", "--steps", "100", "--trace", trace.to_str().unwrap()];
        lockstep_check(folder.path(), &arguments)
    };
    let quiet = walk("conventional-base-normal");
    assert_exit(&quiet, 0);
    assert!(text_of(&quiet).contains("there is no counterexample") && !trace.exists(), "{}", text_of(&quiet));
    assert_exit(&walk(WALKED), 0);
    assert_exit(&lockstep_check(folder.path(), &["replay", trace.to_str().unwrap()]), 0);
}

#[test]
fn cli_new_refuses_names_that_do_not_build() {
    let folder = tempfile::tempdir().unwrap();
    let new = |name: &str, path: &str| {
        command(folder.path(), &["new", name, "--path", path]).current_dir(folder.path()).output().unwrap()
    };
    for name in ["build", "deps", "examples", "incremental", "lockstep-model", "test", "fn"] {
        let refused = new(name, "crate");
        assert_exit(&refused, 2);
        assert!(
            text_of(&refused).contains("choose another") && !folder.path().join("crate").exists(),
            "{name}"
        );
    }
    let said = text_of(&new("ready", "it's a crate"));
    assert!(said.contains(r"next: cargo run --manifest-path 'it'\''s a crate/Cargo.toml'"), "{said}");
    assert!(text_of(&new("ready", "plain")).contains("--manifest-path plain/Cargo.toml\n"));
}

#[test]
fn cli_says_of_a_part_that_the_whole_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| {
        text.replace("name = \"agreed-mutant-never-releases\"", "name = \"gone\"")
    });
    let part = lockstep_check(folder.path(), &["check", "--shard", "400/400"]);
    assert_exit(&part, 21);
    let told = String::from_utf8(part.stdout).unwrap();
    assert!(told.contains("1 failure of the whole"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn cli_tells_that_memory_ends_before_it_does() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let run = "decode-2x2-3p-aborts-deadlines-normal";
    let given_up = lockstep_check(folder.path(), &["check", run, "--most-memory", "64M", "--threads", "1"]);
    assert_exit(&given_up, 22);
    let text = text_of(&given_up);
    assert_eq!(text.matches("MiB; the run stops politely at 64 MiB").count(), 1, "{text}");
}

/// A bound of the address space is no reason to abort.
#[cfg(target_os = "linux")]
#[test]
fn cli_keeps_to_its_address_space() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_lockstep-check");
    let run = "decode-2x2-3p-aborts-deadlines-normal";
    let script = format!("ulimit -v 150000; exec '{program}' check {run} --threads 1");
    let bounded = std::process::Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output();
    let bounded = bounded.unwrap();
    assert_exit(&bounded, 22);
    assert!(text_of(&bounded).contains("the budget of memory is spent"), "{}", text_of(&bounded));
}

/// The exit code of a command whose output nobody reads.
fn unread(folder: &Path, arguments: &[&str]) -> Option<i32> {
    let mut child = command(folder, arguments).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap().code()
}

#[test]
fn cli_reader_that_goes_away_is_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    assert_eq!(unread(folder.path(), &["list"]), Some(0));
    assert_eq!(unread(folder.path(), &["explain", RUN]), Some(0));
    assert_eq!(unread(folder.path(), &["check", RUN]), Some(70), "what was not judged is not as expected");
    assert_eq!(unread(folder.path(), &["check", RUN, "--json"]), Some(70));
    assert_eq!(unread(folder.path(), &["sim", RUN, "--seeds", "1", "--steps", "10"]), Some(70));
}

#[test]
fn cli_full_disk_is_told_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let code = |command: &mut std::process::Command| command.status().unwrap().code();
    assert_eq!(code(command(folder.path(), &["check", RUN]).stdout(full())), Some(70));
    assert_eq!(code(command(folder.path(), &["check", "no-such-run"]).stderr(full())), Some(2));
    let trace = folder.path().join("trace.json");
    let traced = ["check", RUN, "--trace", trace.to_str().unwrap()];
    assert_eq!(code(command(folder.path(), &traced).stderr(full())), Some(0));
    assert!(trace.is_file());
    for option in ["--junit", "--sarif", "--trace"] {
        let output = lockstep_check(folder.path(), &["check", RUN, option, "/dev/full"]);
        assert_exit(&output, 70);
        assert!(text_of(&output).contains("cannot write /dev/full"), "{}", text_of(&output));
    }
    let summary = command(folder.path(), &["check", RUN]).env("GITHUB_STEP_SUMMARY", "/dev/full").output();
    assert_exit(&summary.unwrap(), 70);
    let certificates = folder.path().join("runs.toml/certificates");
    let output =
        lockstep_check(folder.path(), &["check", RUN, "--certificates", certificates.to_str().unwrap()]);
    assert_exit(&output, 2);
    assert!(text_of(&output).contains("cannot write"), "{}", text_of(&output));
}

#[test]
fn cli_refuses_files_it_cannot_write_before_it_explores() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    for option in ["--trace", "--junit", "--sarif", "--certificates", "--artifacts"] {
        let output = lockstep_check(folder.path(), &["check", RUN, option, "/proc/nope/x"]);
        assert_exit(&output, 2);
        assert!(output.stdout.is_empty(), "{}", text_of(&output));
    }
    for arguments in [["check", RUN, "--trace", "-"], ["explain", RUN, "--output", "-"]] {
        let output = lockstep_check(folder.path(), &arguments);
        assert_exit(&output, 2);
        assert!(text_of(&output).contains("/dev/stdout"), "{}", text_of(&output));
    }
    let traced = lockstep_check(folder.path(), &["check", RUN, "--trace", "/dev/stdout"]);
    assert_exit(&traced, 0);
    let told = String::from_utf8(traced.stdout).unwrap();
    assert!(told.contains("as expected") && told.contains("\"lockstep-trace\""), "{told}");
}

#[test]
fn cli_json_is_all_that_is_printed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text.replace("unique = ", "unique = 1"));
    let trace = folder.path().join("trace.json");
    let trace = trace.to_str().unwrap();
    assert_exit(&lockstep_check(folder.path(), &["explain", RUN, "--format", "json", "--output", trace]), 0);
    let commands: [(&[&str], i32); 8] = [
        (&["list", "--json"], 0),
        (&["replay", trace, "--json"], 0),
        (&["mutate", "--json", "--most-states", "10"], 22),
        (&["record", "--json", "--most-states", "10"], 22),
        (&["check", RUN, "--json"], 21),
        (&["check", "conventional-base-normal", "--json", "--most-states", "10"], 22),
        (&["estimate", "conventional-base-normal", "--json", "--most-states", "100"], 22),
        (&["sim", "conventional-base-normal", "--json", "--seeds", "2", "--steps", "20"], 0),
    ];
    for (arguments, code) in commands {
        let mut command = command(folder.path(), arguments);
        let output = command.env("CLICOLOR_FORCE", "1").env("GITHUB_ACTIONS", "true").output().unwrap();
        assert_exit(&output, code);
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.lines().count() > 0, "{arguments:?}");
        for line in told.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{arguments:?}: {line}");
        }
    }
}

#[test]
fn cli_colours_only_whom_they_please() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let coloured = |variables: &[(&str, &str)]| {
        let mut command = command(folder.path(), &["check", RUN]);
        text_of(&command.envs(variables.iter().copied()).output().unwrap()).contains('\u{1b}')
    };
    assert!(!coloured(&[]) && !coloured(&[("NO_COLOR", "1")]));
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn cli_narrow_terminal_gets_narrow_lines() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    for columns in [40, 60, 100, 120] {
        let mut command = command(folder.path(), &["check", RUN, "--show"]);
        let output = command.env("COLUMNS", columns.to_string()).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let (lines, last) = told.trim_end().rsplit_once('\n').unwrap();
        let widest = lines.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(columns.max(RUN.len() + 2)), "{widest:?} in {columns}:\n{lines}");
        assert!(last.starts_with("1 run, as expected"), "{last}");
        let mut command = self::command(folder.path(), &["list"]);
        let listed = command.env("COLUMNS", columns.to_string()).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let is_moved_in = |line: &&str| line.starts_with(' ');
        let widest = listed.lines().filter(is_moved_in).map(|line| line.chars().count()).max();
        assert!(widest > Some(columns / 2) && widest <= Some(columns.max(60)), "{widest:?} in {columns}");
    }
}

#[test]
fn cli_mutate_tells_what_is_unknown_from_what_survives() {
    let folder = tempfile::tempdir().unwrap();
    let given_up = lockstep_check(folder.path(), &["mutate", "--most-states", "10"]);
    assert_exit(&given_up, 22);
    let text = text_of(&given_up);
    assert!(text.contains("unknown: no verdict after") && !text.contains("SURVIVES"), "{text}");
}
