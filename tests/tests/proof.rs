//! The record of proofs: what the checker finds now is what CHECKS.md, proved.json and model/runs.toml say. This performs the runs that
//! the record is made of, so it takes the longest of all tests; it is the check of the recorded counts.

use std::process::Command;

use lockstep_tests::places::workspace;
use lockstep_tests::server::output;

#[test]
fn proof_the_record_is_what_the_checker_finds() {
    let mut checker = Command::new(env!("CARGO_BIN_EXE_tested-lockstep-check"));
    let (code, told, errors) = output(checker.args(["record", "--check"]));
    assert_eq!(code, 0, "run `lockstep-check record` and review the change\n{told}\n{errors}");
}

#[test]
fn proof_the_record_is_of_this_protocol() {
    let text = std::fs::read(workspace().join("proved.json")).unwrap();
    let record: lockstep_model::runs::Proved = serde_json::from_slice(&text).unwrap();
    assert_eq!(record.spec_fingerprint, lockstep_spec::FINGERPRINT);
    assert!(!record.classes.is_empty(), "no class of group is proved");
}
