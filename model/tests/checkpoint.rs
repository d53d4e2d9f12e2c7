//! Runs that are given up and go on, from outside: certificates tell no difference, and no file is believed that should not be.

#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::hash::Hasher;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{assert_exit, command, lockstep_check, put_manifest, text_of};
use lockstep_model::explore::Fingerprinter;
use serde_json::Value;

const HOLDS: &str = "decode-1x2-3p-aborts-transfers-normal";
const FAILS: &str = "decode-mutant-loses-pages";
const STALLS: &str = "agreed-mutant-never-releases";
/// Time after which a process that should have ended is at fault.
const PATIENCE: Duration = Duration::from_secs(60);

fn check(folder: &Path, run: &str, arguments: &[&str]) -> Output {
    lockstep_check(folder, &[&["check", run, "--json"], arguments].concat())
}

/// The certificate, and what it says of its effort.
fn certificate(output: &Output) -> (Value, Value) {
    let mut certificate: Value = serde_json::from_slice(&output.stdout).unwrap();
    let effort = certificate.as_object_mut().unwrap().remove("effort").unwrap();
    (certificate, effort)
}

fn prepared() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    put_manifest(folder.path(), |text| text);
    let file = folder.path().join("kept/run.checkpoint");
    (folder, file)
}

/// Gives `run` up beyond `states`, and leaves the checkpoint in `file`.
fn give_up(folder: &Path, run: &str, states: &str, file: &Path) -> Output {
    let arguments = ["--most-states", states, "--checkpoint", file.to_str().unwrap(), "--threads", "1"];
    let given_up = check(folder, run, &arguments);
    assert_exit(&given_up, 22);
    given_up
}

#[test]
fn checkpoint_certificates_are_those_of_one_piece() {
    let (folder, file) = prepared();
    for (run, points) in
        [(HOLDS, ["0", "3000", "20000"]), (FAILS, ["0", "20", "40"]), (STALLS, ["0", "10", "40"])]
    {
        let (whole, effort) = certificate(&check(folder.path(), run, &[]));
        assert_eq!((&whole["ok"], effort.get("resumed")), (&true.into(), None), "{whole:#}");
        for (point, threads) in points.iter().zip(["1", "2", "1"]) {
            let given_up = give_up(folder.path(), run, point, &file);
            assert!(text_of(&given_up).contains(&format!("check {run} --resume")), "{}", text_of(&given_up));
            let arguments = ["--resume", file.to_str().unwrap(), "--threads", threads];
            let (resumed, effort) = certificate(&check(folder.path(), run, &arguments));
            assert_eq!(resumed, whole, "given up beyond {point} states");
            assert!(effort["resumed"]["states"].as_u64() > point.parse().ok(), "{effort}");
            assert!(effort["seconds"].as_f64() > effort["resumed"]["seconds"].as_f64(), "{effort}");
        }
    }
}

#[test]
fn checkpoint_refuses_what_it_cannot_trust() {
    let (folder, file) = prepared();
    give_up(folder.path(), HOLDS, "3000", &file);
    let good = fs::read(&file).unwrap();
    let resume = |bytes: &[u8], run: &str, code: i32, says: &str| {
        fs::write(&file, bytes).unwrap();
        let refused = check(folder.path(), run, &["--resume", file.to_str().unwrap()]);
        assert_exit(&refused, code);
        assert!(text_of(&refused).contains(says), "{}", text_of(&refused));
    };
    resume(&good, HOLDS, 0, "");
    resume(&good, FAILS, 2, &format!("is of the run {HOLDS}, not of {FAILS}"));
    resume(b"{}", HOLDS, 70, "is no checkpoint of this version");
    resume(&good[..good.len() - 1], HOLDS, 70, "damaged or cut short");
    resume(&good[..40], HOLDS, 70, "damaged or cut short");
    for place in [40, good.len() / 2, good.len() - 1] {
        let mut damaged = good.clone();
        damaged[place] ^= 1;
        resume(&damaged, HOLDS, 70, "damaged or cut short");
    }
    fs::remove_file(&file).unwrap();
    let missing = check(folder.path(), HOLDS, &["--resume", file.to_str().unwrap()]);
    assert_exit(&missing, 70);
    assert!(text_of(&missing).contains("cannot read the checkpoint"), "{}", text_of(&missing));
}

/// The file with another text in its head, sealed anew.
fn resealed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let lines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let head = lines.map(|(place, _)| place + 1).nth(1).unwrap();
    let text = std::str::from_utf8(&bytes[..head]).unwrap();
    assert!(text.contains(from), "{text}");
    let mut changed = [text.replace(from, to).as_bytes(), &bytes[head..bytes.len() - 16]].concat();
    let mut digest = Fingerprinter::default();
    changed.chunks(1 << 16).for_each(|block| digest.write(block));
    changed.extend(digest.fingerprint().to_le_bytes());
    changed
}

#[test]
fn checkpoint_of_other_sources_or_bounds_is_stale() {
    let (folder, file) = prepared();
    give_up(folder.path(), HOLDS, "3000", &file);
    let good = fs::read(&file).unwrap();
    let cases = [
        ("\"spec\":\"", "the specification"),
        ("\"model\":\"", "the models or the checker"),
        ("\"parameters\":\"", "the bounds of the run"),
    ];
    for (field, what) in cases {
        fs::write(&file, resealed(&good, field, &format!("{field}x"))).unwrap();
        let stale = check(folder.path(), HOLDS, &["--resume", file.to_str().unwrap()]);
        assert_exit(&stale, 21);
        assert!(text_of(&stale).contains(&format!("is stale: {what} changed")), "{}", text_of(&stale));
    }
    fs::write(&file, resealed(&good, "\"states\":", "\"states\":")).unwrap();
    assert_exit(&check(folder.path(), HOLDS, &["--resume", file.to_str().unwrap()]), 0);
}

#[test]
fn checkpoint_keeps_one_run_only() {
    let (folder, file) = prepared();
    for option in ["--checkpoint", "--resume"] {
        let several = lockstep_check(folder.path(), &["check", HOLDS, FAILS, option, file.to_str().unwrap()]);
        assert_exit(&several, 2);
        assert!(text_of(&several).contains("name one, and only one"), "{}", text_of(&several));
    }
    assert_exit(&check(folder.path(), HOLDS, &["--checkpoint-every", "1m"]), 2);
    assert_exit(&check(folder.path(), HOLDS, &["--checkpoint", "x", "--checkpoint-every", "often"]), 2);
}

/// A target that cannot be replaced is refused before anything is explored, and left as it is.
#[test]
fn checkpoint_is_refused_where_no_file_can_be_replaced() {
    let (folder, _) = prepared();
    let below_a_file = folder.path().join("runs.toml/run.checkpoint");
    let places =
        [below_a_file.to_str().unwrap(), folder.path().to_str().unwrap(), "/proc/nope/x", "-", "/dev/full"];
    for place in places {
        let refused = check(folder.path(), HOLDS, &["--checkpoint", place]);
        assert_exit(&refused, 2);
        assert!(refused.stdout.is_empty() && text_of(&refused).contains("name "), "{}", text_of(&refused));
    }
    assert!(!fs::metadata("/dev/full").unwrap().is_file());
}

#[cfg(unix)]
#[test]
fn checkpoint_is_written_where_links_lead() {
    let (folder, file) = prepared();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    give_up(folder.path(), HOLDS, "3000", &link);
    assert!(link.is_symlink() && file.is_file());
    assert_exit(&check(folder.path(), HOLDS, &["--resume", link.to_str().unwrap()]), 0);
}

/// A folder that goes away while the run goes is told in the end.
#[cfg(unix)]
#[test]
fn checkpoint_that_cannot_be_written_is_said() {
    let (folder, file) = prepared();
    let child = started(folder.path(), &file);
    // In one step: what is written meanwhile would be in the way of a removal.
    fs::rename(file.parent().unwrap(), folder.path().join("gone")).unwrap();
    sleep(Duration::from_millis(100));
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let unwritten = child.wait_with_output().unwrap();
    assert_exit(&unwritten, 70);
    assert!(text_of(&unwritten).contains("the last checkpoint is not written"), "{}", text_of(&unwritten));
}

/// A run that takes longer than the test, with a checkpoint between any two blocks; waits until there is one.
fn started(folder: &Path, file: &Path) -> Child {
    let arguments = [
        "check",
        "decode-2x2-3p-aborts-deadlines-normal",
        "--json",
        "--checkpoint",
        file.to_str().unwrap(),
        "--checkpoint-every",
        "0s",
    ];
    let child = command(folder, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !file.exists() {
        assert!(started.elapsed() < PATIENCE, "no checkpoint is written");
        sleep(Duration::from_millis(5));
    }
    child
}

#[cfg(unix)]
#[test]
fn checkpoint_is_left_when_asked_to_stop() {
    let (folder, file) = prepared();
    for signal in ["-INT", "-TERM"] {
        let child = started(folder.path(), &file);
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let stopped = child.wait_with_output().unwrap();
        assert_exit(&stopped, 22);
        let (certificate, _) = certificate(&stopped);
        assert_eq!(certificate["found"]["reason"], "stopped", "{certificate:#}");
        let states = certificate["size"]["states"].as_u64();
        let arguments = ["--resume", file.to_str().unwrap(), "--most-states", "0"];
        let (again, effort) =
            self::certificate(&check(folder.path(), "decode-2x2-3p-aborts-deadlines-normal", &arguments));
        assert_eq!(
            (effort["resumed"]["states"].as_u64(), again["size"]["states"].as_u64()),
            (states, states)
        );
        fs::remove_file(&file).unwrap();
    }
}

/// Without a checkpoint, too: the run says how far it came, and what comes after it is not begun.
#[cfg(unix)]
#[test]
fn checkpoint_or_not_a_signal_ends_politely() {
    let (folder, _) = prepared();
    let long = "decode-2x2-3p-aborts-deadlines-normal";
    let arguments = ["check", FAILS, long, HOLDS];
    let mut child =
        command(folder.path(), &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut told = String::new();
    out.read_line(&mut told).unwrap();
    sleep(Duration::from_millis(100));
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    out.read_to_string(&mut told).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_exit(&ended, 22);
    assert!(
        told.contains("not expanded: it was asked to stop") && told.contains("1 failure of the whole"),
        "{told}"
    );
    let text = text_of(&ended);
    assert!(text.contains(&format!("1 of 3 runs were not performed: {HOLDS}")), "{text}");
}

#[test]
fn checkpoint_outlives_a_process_that_is_killed() {
    let (folder, file) = prepared();
    let mut child = started(folder.path(), &file);
    sleep(Duration::from_millis(100));
    child.kill().unwrap();
    child.wait().unwrap();
    let arguments = ["--resume", file.to_str().unwrap(), "--most-states", "0"];
    let again = check(folder.path(), "decode-2x2-3p-aborts-deadlines-normal", &arguments);
    assert_exit(&again, 22);
    assert!(certificate(&again).1["resumed"]["states"].as_u64() > Some(0));
}
