//! What the binary leaves behind for other tools: certificates, their schema, shards and their merging, forms.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;
mod schema;

use std::fs;
use std::path::Path;

use common::{assert_exit, command, lockstep_check, put_manifest, text_of};
use lockstep_model::ci::{Findings, junit, step_summary};
use lockstep_model::explore::Settings;
use lockstep_model::runs::registry;
use serde_json::Value;

/// Runs that are small: some hold, some must fail, in several ways.
const RUNS: [&str; 5] = [
    "prefill-2x1-deadlines-normal",
    "decode-mutant-loses-pages",
    "conventional-local-run-or-idle-normal",
    "agreed-mutant-never-releases",
    "prefill-1x1-everything-normal",
];

fn with_runs(before: &[&'static str], after: &[&'static str]) -> Vec<&'static str> {
    [before, &RUNS, after].concat()
}

/// A folder with the manifest, and in `out` the certificates of all [`RUNS`], made in two parts.
fn certified() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    for part in ["1/2", "2/2"] {
        let arguments = with_runs(&["check"], &["--shard", part, "--certificates", "out"]);
        assert_exit(&command(folder.path(), &arguments).current_dir(folder.path()).output().unwrap(), 0);
    }
    folder
}

fn merge(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let named: Vec<&str> = RUNS.iter().flat_map(|run| ["--run", run]).collect();
    command(folder, &[&["merge", "out"], &named[..], arguments].concat())
        .current_dir(folder)
        .output()
        .unwrap()
}

fn change(path: &Path, change: impl Fn(&mut Value)) {
    let mut certificate: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    change(&mut certificate);
    fs::write(path, certificate.to_string()).unwrap();
}

#[test]
fn ci_certificates_follow_their_schema() {
    let schema =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/certificate.schema.json"));
    let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let told = lockstep_check(folder.path(), &with_runs(&["check", "--json", "--show"], &[]));
    assert_exit(&told, 0);
    let given_up = lockstep_check(folder.path(), &["check", "--json", "--most-states", "9", RUNS[0]]);
    put_manifest(folder.path(), |_| String::new());
    let unlisted = lockstep_check(folder.path(), &["check", "--json", RUNS[0]]);
    let lines = [&told, &given_up, &unlisted].map(|output| String::from_utf8(output.stdout.clone()).unwrap());
    let certificates: Vec<Value> =
        lines.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(certificates.len(), RUNS.len() + 2);
    for certificate in &certificates {
        assert_eq!(schema::faults(&schema, certificate), [""; 0], "{certificate:#}");
    }
    let mut broken = certificates[0].clone();
    broken["size"]["states"] = "many".into();
    assert_eq!(schema::faults(&schema, &broken).len(), 1, "a schema that everything follows says nothing");
    let unknown = &certificates[RUNS.len()];
    assert_eq!((&unknown["ok"], &unknown["exhausted"]), (&false.into(), &false.into()));
    assert!(
        unknown["size"]["unexpanded"].as_u64() > Some(0) && unknown["why_not"].is_string(),
        "{unknown:#}"
    );
    let proof = &certificates[0];
    assert!(proof["size"]["boundary_states"].as_u64() > Some(0), "{proof:#}");
    assert!(proof["size"]["boundary_states"].as_u64() < proof["size"]["states"].as_u64(), "{proof:#}");
    let certificate: lockstep_model::ci::Certificate = serde_json::from_value(proof.clone()).unwrap();
    assert!(certificate.bears_ok());
    let run = registry().runs.into_iter().find(|run| run.name == RUNS[0]).unwrap();
    let found = run.model.run(&Settings::default()).unwrap().scope;
    assert!(!found.reductions.is_empty() && certificate.reductions == found.reductions, "{proof:#}");
    assert!(!found.properties.is_empty() && certificate.properties == found.properties, "{proof:#}");
    assert!(!found.reached.is_empty() && certificate.witnesses.reached == found.reached, "{proof:#}");
}

/// The certificate of a run, changed in one way after another.
fn variants(changes: &[(&str, Value)]) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let told = lockstep_check(folder.path(), &["check", "--json", RUNS[0]]);
    let honest: Value = serde_json::from_slice(&told.stdout).unwrap();
    let variant = |(pointer, value): &(&str, Value)| {
        let mut certificate = honest.clone();
        *certificate.pointer_mut(pointer).unwrap() = value.clone();
        serde_json::from_value(certificate).unwrap()
    };
    Findings { certificates: changes.iter().map(variant).collect(), failures: Vec::new() }
}

#[test]
fn ci_junit_has_a_case_for_each_run_of_any_purpose() {
    let purposes = ["control", "hazard", "mutant", "proof"];
    let findings = variants(&purposes.map(|purpose| ("/purpose", purpose.into())));
    let junit = junit(&findings);
    assert_eq!(junit.matches("<testcase ").count(), purposes.len(), "{junit}");
    for purpose in purposes {
        assert!(junit.contains(&format!("<testsuite name=\"{purpose}s\" tests=\"1\"")), "{junit}");
    }
}

#[test]
fn ci_junit_stays_xml_whatever_is_said() {
    let mut findings = variants(&[("/failure", "a < b && \"c\" > d\u{1}".into())]);
    findings.certificates[0].ok = false;
    let junit = junit(&findings);
    assert!(junit.contains("message=\"a &lt; b &amp;&amp; &quot;c&quot; &gt; d\""), "{junit}");
}

#[test]
fn ci_summary_says_what_each_run_must_do() {
    let expected = |verdict: &str, property: Option<&str>| {
        ("/expected", serde_json::json!({ "verdict": verdict, "property": property }))
    };
    let findings = variants(&[
        expected("holds", None),
        expected("violates", Some("matched")),
        expected("loses", Some("a pause")),
        expected("moves", Some("a-run")),
    ]);
    let summary = step_summary(&findings);
    for must in ["hold", "violate `matched`", "lose `a pause`", "move `a-run`"] {
        assert!(summary.contains(&format!("| `{}` | {must} | holds |", RUNS[0])), "{must} in {summary}");
    }
}

#[test]
fn ci_summary_keeps_to_one_line_a_run() {
    let mut findings = variants(&[("/failure", "a | b\nc".into())]);
    findings.certificates[0].ok = false;
    let summary = step_summary(&findings);
    assert!(summary.contains("holds: a \\| b c |"), "{summary}");
}

#[test]
fn ci_merge_accepts_all_parts_and_nothing_less() {
    let folder = certified();
    assert_exit(&merge(folder.path(), &[]), 0);
    let out = folder.path().join("out");
    assert_eq!(fs::read_dir(&out).unwrap().count(), RUNS.len());
    fs::remove_file(out.join(format!("{}.json", RUNS[1]))).unwrap();
    let missing = merge(folder.path(), &["--junit", "junit.xml"]);
    assert_exit(&missing, 22);
    assert!(
        text_of(&missing).contains(&format!("no certificate for `{}`", RUNS[1])),
        "{}",
        text_of(&missing)
    );
    let junit = fs::read_to_string(folder.path().join("junit.xml")).unwrap();
    assert!(junit.contains("errors=\"1\"") && junit.contains(RUNS[1]), "{junit}");
}

#[test]
fn ci_counts_of_another_specification_are_no_pass() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text.replace("spec = \"", "spec = \"another"));
    let arguments = with_runs(&["check"], &["--certificates", "out"]);
    let checked = command(folder.path(), &arguments).current_dir(folder.path()).output().unwrap();
    let merged = merge(folder.path(), &[]);
    for output in [&checked, &merged] {
        assert_exit(output, 21);
        assert!(
            text_of(output).contains("counts unmoved; the specification is another"),
            "{}",
            text_of(output)
        );
    }
    // One that passed when the manifest was of its specification.
    put_manifest(folder.path(), |text| text);
    assert_exit(&command(folder.path(), &arguments).current_dir(folder.path()).output().unwrap(), 0);
    put_manifest(folder.path(), |text| text.replace("spec = \"", "spec = \"another"));
    let out = folder.path().join("out");
    for entry in fs::read_dir(&out).unwrap() {
        change(&entry.unwrap().path(), |certificate| {
            let spec = format!("another{}", certificate["recorded"]["spec"].as_str().unwrap());
            certificate["recorded"]["spec"] = spec.into();
        });
    }
    let passed = merge(folder.path(), &[]);
    assert_exit(&passed, 21);
    assert!(text_of(&passed).contains("with counts of another specification"), "{}", text_of(&passed));
}

#[test]
fn ci_merge_refuses_what_does_not_belong() {
    let folder = certified();
    let path = folder.path().join("out").join(format!("{}.json", RUNS[0]));
    let honest = fs::read_to_string(&path).unwrap();
    let forged = |change_it: &dyn Fn(&mut Value)| {
        fs::write(&path, &honest).unwrap();
        change(&path, change_it);
        let output = merge(folder.path(), &[]);
        (output.status.code(), text_of(&output))
    };
    let (code, text) = forged(&|certificate| certificate["fingerprints"]["spec"] = "other".into());
    assert!(code == Some(21) && text.contains("from other sources"), "{text}");
    let (code, text) = forged(&|certificate| certificate["size"]["states"] = 445.into());
    assert!(code == Some(70) && text.contains("contradicts itself"), "{text}");
    let (code, text) = forged(&|certificate| certificate["exhausted"] = false.into());
    assert!(code == Some(70) && text.contains("contradicts itself"), "{text}");
    let (code, text) = forged(&|certificate| {
        certificate["size"]["states"] = 445.into();
        certificate["recorded"]["states"] = 445.into();
    });
    assert!(code == Some(21) && text.contains("another manifest"), "{text}");
    let (code, text) = forged(&|certificate| certificate["schema"] = 2.into());
    assert!(code == Some(21) && text.contains("has another schema"), "{text}");
    let (code, text) = forged(&|certificate| certificate["expected"]["verdict"] = "moves".into());
    assert!(code == Some(21) && text.contains("expects what the run does not"), "{text}");
    let (code, text) = forged(&|certificate| certificate["run"] = "no-such-run".into());
    assert!(code == Some(21) && text.contains("no run of this checker"), "{text}");
    // One that is not as it must be, and asks for the exit code of one that is.
    let (code, text) = forged(&|certificate| {
        certificate["ok"] = false.into();
        certificate["found"] = serde_json::json!({ "verdict": "vacuous", "missing": [] });
    });
    assert!(code == Some(70) && text.contains("contradicts itself"), "{text}");
    fs::write(&path, "{}").unwrap();
    assert_exit(&merge(folder.path(), &[]), 70);
    fs::write(&path, &honest[..honest.len() / 2]).unwrap();
    let half = merge(folder.path(), &[]);
    assert_exit(&half, 70);
    assert!(text_of(&half).contains("is no certificate of a run"), "{}", text_of(&half));
}

#[test]
fn ci_findings_that_are_not_as_expected_never_exit_with_success() {
    let mut findings = variants(&[("/ok", false.into())]);
    findings.certificates[0].exit = 0;
    assert_eq!(findings.exit(), lockstep_model::runs::Exit::Internal);
}

#[test]
fn ci_merge_of_wrong_parts_names_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    for out in ["out/first", "out/again"] {
        let arguments = with_runs(&["check"], &["--shard", "1/2", "--certificates", out]);
        assert_exit(&command(folder.path(), &arguments).current_dir(folder.path()).output().unwrap(), 0);
    }
    let twice = merge(folder.path(), &[]);
    assert_exit(&twice, 22);
    let missing = text_of(&twice).matches("no certificate for").count();
    assert!((1..RUNS.len()).contains(&missing), "{}", text_of(&twice));
    assert!(text_of(&twice).contains(&format!("{missing} failure")), "{}", text_of(&twice));
    let other_tier = command(folder.path(), &["merge", "out", "--tier", "nightly"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_exit(&other_tier, 22);
    assert!(text_of(&other_tier).contains("no certificate for `decode-3x2-4p-plain-normal`"));
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    let nothing = merge(folder.path(), &[]);
    assert_exit(&nothing, 22);
    assert!(!text_of(&nothing).contains("as expected"), "{}", text_of(&nothing));
}

#[test]
fn ci_merge_takes_twins_only_if_they_agree() {
    let folder = certified();
    let (own, twin) =
        (folder.path().join("out").join(format!("{}.json", RUNS[0])), folder.path().join("out/twin.json"));
    fs::copy(&own, &twin).unwrap();
    change(&twin, |certificate| certificate["effort"]["seconds"] = 1e9.into());
    assert_exit(&merge(folder.path(), &[]), 0);
    change(&twin, |certificate| certificate["size"]["boundary_states"] = 1.into());
    let differing = merge(folder.path(), &[]);
    assert_exit(&differing, 70);
    assert!(text_of(&differing).contains("say different things"), "{}", text_of(&differing));
    fs::rename(&twin, folder.path().join("out/twin.trace.json")).unwrap();
    assert_exit(&merge(folder.path(), &[]), 0);
}

#[test]
fn ci_shards_are_told_by_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let run = |environment: &[(&str, &str)], shard: &'static str| {
        let arguments = with_runs(&["check", "--json"], &["--shard", shard]);
        let output = command(folder.path(), &arguments).envs(environment.iter().copied()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap().lines().count())
    };
    let slurm =
        |id| [("SLURM_ARRAY_TASK_ID", id), ("SLURM_ARRAY_TASK_MIN", "5"), ("SLURM_ARRAY_TASK_COUNT", "2")];
    let (first, second) = (run(&slurm("5"), "auto"), run(&slurm("6"), "auto"));
    assert_eq!((first.0, second.0, first.1 + second.1), (Some(0), Some(0), RUNS.len()));
    let stepped = [&slurm("7")[..], &[("SLURM_ARRAY_TASK_STEP", "2")]].concat();
    assert_eq!(run(&stepped, "auto"), second);
    let told_apart = [("SLURM_ARRAY_TASK_ID", "1"), ("SLURM_ARRAY_TASK_COUNT", "9")];
    assert_eq!(run(&told_apart, "auto/2"), second, "what is written counts for more than what is found");
    assert_eq!(run(&[("JOB_COMPLETION_INDEX", "1")], "auto/2"), run(&[], "2/2"));
    assert_eq!(run(&[("JOB_COMPLETION_INDEX", "1")], "auto"), (Some(2), 0));
    assert_eq!(run(&[("JOB_COMPLETION_INDEX", "two")], "auto/2"), (Some(2), 0));
    assert_eq!(run(&slurm("7"), "auto"), (Some(2), 0));
    assert_eq!(["auto", "3/2", "0/2", "x"].map(|shard| run(&[], shard)), [(Some(2), 0); 4]);
}

/// A folder in which one run's counts have moved, and what was left behind there.
fn moved() -> (tempfile::TempDir, std::process::Output) {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text.replace("unique = 655\n", "unique = 656\n"));
    let forms = ["--artifacts", "failed", "--junit", "forms/junit.xml", "--sarif", "forms/checker.sarif"];
    let arguments = [&["check", RUNS[0], RUNS[1]], &forms[..]].concat();
    let mut command = command(folder.path(), &arguments);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", folder.path().join("summary.md"));
    let output = command.current_dir(folder.path()).output().unwrap();
    (folder, output)
}

#[test]
fn ci_failures_reach_every_form() {
    let (folder, output) = moved();
    assert_exit(&output, 21);
    let read = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    let annotations = String::from_utf8(output.stderr).unwrap();
    assert!(annotations.contains("::error file=model/src/runs/registry/decode.rs,line="), "{annotations}");
    assert!(annotations.contains("unique states 656 → 655 (-0.2 %25)"), "{annotations}");
    let summary = read("summary.md");
    assert!(
        summary.contains("**not** as expected") && summary.contains("| ✗ | `decode-mutant-loses-pages`"),
        "{summary}"
    );
    let junit = read("forms/junit.xml");
    assert!(
        junit.contains("tests=\"2\" failures=\"1\" errors=\"0\"")
            && junit.contains("<failure type=\"exit 21\""),
        "{junit}"
    );
    let mut left: Vec<_> =
        fs::read_dir(folder.path().join("failed")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let names = ["json", "svg", "trace.json", "txt"].map(|form| format!("{}.{form}", RUNS[1]));
    let left: Vec<String> = left.into_iter().map(|name| name.into_string().unwrap()).collect();
    assert_eq!(left, names);
    assert!(read(&format!("failed/{}.svg", RUNS[1])).contains("</svg>"));
    let trace = folder.path().join("failed").join(&names[2]);
    assert_exit(&lockstep_check(folder.path(), &["replay", trace.to_str().unwrap()]), 0);
    let drawn = read("failed/decode-mutant-loses-pages.txt");
    assert!(drawn.contains("pages-sound") && !drawn.contains('\u{1b}'), "{drawn}");
}

#[test]
fn ci_sarif_has_the_counterexample_where_the_invariant_is() {
    let (folder, _) = moved();
    let sarif: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("forms/checker.sarif")).unwrap())
            .unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    let place = |location: &Value| {
        location["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap().to_owned()
    };
    assert_eq!(place(&results[0]["locations"][0]), "spec/src/invariant/pages_sound.rs");
    assert_eq!(results[0]["ruleId"], sarif["runs"][0]["tool"]["driver"]["rules"][0]["id"]);
    let steps = results[0]["codeFlows"][0]["threadFlows"][0]["locations"].as_array().unwrap();
    assert!(steps.len() > 2);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut places: Vec<String> = steps.iter().map(|step| place(&step["location"])).collect();
    places.extend(
        registry()
            .properties
            .iter()
            .map(|property| format!("spec/src/invariant/{}.rs", property.id.replace('-', "_"))),
    );
    assert!(places.iter().all(|path| workspace.join(path).is_file()), "{places:?}");
}
