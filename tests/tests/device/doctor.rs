//! `lockstep doctor`, on machines with and without what CUDA needs.

use std::net::TcpListener;
use std::process::Command;

use lockstep_kernels::cuda::device_count;
use lockstep_tests::server::output;
use lockstep_tests::standin::Standin;
use serde_json::Value;

use crate::common::{cache, standin};

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tested-lockstep"));
    command.args(words);
    command
}

/// The exit code and the report of a doctor that is asked about a free port. What is proved is another test's matter.
fn report(words: &[&str], lend: impl Fn(&mut Command)) -> (i32, Value) {
    let mut command = command(&[&["doctor", "--json", "--port", "0", "--unchecked"], words].concat());
    lend(&mut command);
    let (code, report, errors) = output(&mut command);
    (code, serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report} {errors}")))
}

/// Standing and words of the findings of one subject.
fn found<'a>(report: &'a Value, subject: &str) -> Vec<(&'a str, &'a str)> {
    let findings = report["findings"].as_array().unwrap().iter();
    let text = |finding: &'a Value, name: &str| finding[name].as_str().unwrap();
    findings
        .filter(|finding| finding["subject"] == subject)
        .map(|finding| (text(finding, "standing"), text(finding, "found")))
        .collect()
}

fn only<'a>(report: &'a Value, subject: &str) -> (&'a str, &'a str) {
    let all = found(report, subject);
    assert_eq!(all.len(), 1, "{subject}: {report}");
    all[0]
}

#[test]
fn doctor_of_a_machine_without_cuda_finds_that_the_cpu_serves() {
    if device_count().is_ok() {
        return;
    }
    let (code, report) = report(&["--device", "auto"], |_| {});
    assert_eq!((code, &report["can_serve"]), (0, &Value::Bool(true)), "{report}");
    let (standing, words) = only(&report, "CUDA driver");
    assert!(
        standing == "note" && words.contains("libcuda.so.1") && words.contains("LD_LIBRARY_PATH"),
        "{words}"
    );
    assert!(only(&report, "computes").1.starts_with("the CPU computes"), "{report}");
    assert_eq!(only(&report, "group size"), ("good", "--tp may be 1, 2, 3, 4"));
    for subject in ["model", "tokenizer", "weights", "port", "flags"] {
        assert_eq!(only(&report, subject).0, "good", "{report}");
    }
}

#[test]
fn doctor_of_a_machine_with_cuda_names_devices_and_libraries() {
    let (code, report) = report(&["--tp", "2", "--device", "auto"], |command| {
        standin().lend(command, 2);
    });
    assert_eq!(code, 0, "{report}");
    let driver = only(&report, "CUDA driver").1;
    assert!(driver.starts_with("runs CUDA 13.0, from /") && driver.ends_with("/libcuda.so"), "{driver}");
    let devices = found(&report, "CUDA device");
    assert_eq!(devices.len(), 2);
    assert_eq!(devices[1].1, "1: Lockstep stand-in (no GPU), compute capability 9.0, 4.0 GiB");
    assert!(only(&report, "NCCL").1.starts_with("2.30.0, from /"), "{report}");
    assert!(only(&report, "computes").1.starts_with("CUDA devices 0, 1 compute"), "{report}");
}

#[test]
fn doctor_says_where_nccl_is_when_it_has_another_name() {
    let (code, report) = report(&["--device", "auto"], |command| {
        Standin::with_nccl_misnamed(cache()).lend(command, 2);
    });
    assert_eq!(code, 0, "{report}");
    let (standing, words) = only(&report, "NCCL");
    assert!(standing == "note" && words.contains("standin-misnamed/libnccl.so.2"), "{words}");
}

#[test]
fn doctor_fails_for_what_serve_refuses_and_says_the_same() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let cases: [&[&str]; 4] = [
        &["--port", &port],
        &["--port", "0", "--model", "/nowhere"],
        &["--port", "0", "--device", "cuda", "--cuda-devices", "7"],
        &["--port", "0", "--pages", "1", "--page-size", "8"],
    ];
    for words in cases {
        let lent =
            |first: &str| output(standin().lend(&mut command(&[&[first, "--unchecked"], words].concat()), 1));
        let (code, report, errors) = lent("doctor");
        assert_eq!(code, 1, "{report}");
        assert!(errors.contains("1 of the findings keep `lockstep serve` from running"), "{errors}");
        let (refused, _, reason) = lent("serve");
        assert_ne!(refused, 0);
        let reason = reason.trim().strip_prefix("lockstep: ").unwrap();
        assert!(report.contains(reason), "serve says {reason:?}, the doctor {report}");
    }
    let (code, report) = report(&["--tp", "5"], |_| {});
    assert_eq!((code, &report["can_serve"]), (1, &Value::Bool(false)));
    let (standing, words) = only(&report, "group size");
    assert!(standing == "missing" && words.ends_with("--tp may be 1, 2, 3, 4"), "{words}");
}
