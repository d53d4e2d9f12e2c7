//! The script for a machine with a GPU (`tests/device/run`), tried on the stand-ins: that it runs, tells a failure, and does not
//! take a stand-in for a GPU.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use lockstep_kernels::cuda::device_count;
use lockstep_tests::places::{model_directory, workspace};
use lockstep_tests::server::{Scratch, output};
use serde_json::Value;

use crate::common::standin;

/// The script with these programs and sections, on as little as shows that it works.
fn script(scratch: &Scratch, device_rank: &str, sections: &str) -> Command {
    let programs = scratch.path("programs");
    std::fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_tested-lockstep"), programs.join("lockstep")).unwrap();
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

#[test]
fn prepared_sections_pass_on_the_stand_ins_and_say_so() {
    let scratch = Scratch::default();
    let sections = "doctor,kernels,tokens,graph,forwards,ahead,nccl_one,join_alone,nccl_two,abort,conventional,watchdog,graph_collective,latency";
    let mut command = script(&scratch, env!("CARGO_BIN_EXE_device-rank"), sections);
    let (code, lines, errors) = output(standin().lend(&mut command, 2));
    assert_eq!(code, 0, "{lines} {errors}");
    for section in sections.split(',') {
        let result = result(&scratch, section);
        assert_eq!((&result["state"], &result["device"]), (&"passed".into(), &"stand-in".into()), "{result}");
    }
    let computes = &result(&scratch, "tokens")["found"]["cuda"]["computes"];
    assert!(computes.as_str().unwrap().contains("CUDA devices 0"), "{computes}");
}

#[test]
fn prepared_ranks_share_the_only_device_where_nccl_lets_them() {
    let scratch = Scratch::default();
    let mut command = script(&scratch, env!("CARGO_BIN_EXE_device-rank"), "nccl_two");
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
        let (code, ..) = output(&mut script(&scratch, env!("CARGO_BIN_EXE_device-rank"), "kernels,nccl_one"));
        let result = result(&scratch, "nccl_one");
        assert_eq!(
            (code, &result["state"], &result["device"]),
            (0, &"skipped".into(), &"none".into()),
            "{result}"
        );
        assert!(Path::exists(&scratch.path("out/kernels.json")));
    }
}
