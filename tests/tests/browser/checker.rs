//! `lockstep-check` as a child of the test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

use lockstep_tests::server::{Scratch, output};

/// A run of the catalogue with a short counterexample, and its steps.
pub(crate) const RUN: &str = "conventional-handshake-skip-local-overlap";
pub(crate) const STEPS: [&str; 10] = [
    "rank 0 sees Arrived",
    "rank 0 sees AddressResolved",
    "rank 0 turns",
    "rank 1 turns",
    "the collective completes",
    "rank 0 sees HandshakeDone(0)",
    "rank 0 turns",
    "rank 0 turns",
    "rank 1 turns",
    "the collective completes",
];

pub(crate) fn lockstep_check(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = scratch.command(env!("CARGO_BIN_EXE_tested-lockstep-check"), arguments);
    command.current_dir(scratch.path("tmp"));
    command
}

/// Runs a command to its end, which must have this exit code, and gives what it said.
#[track_caller]
pub(crate) fn said(scratch: &Scratch, arguments: &[&str], code: i32) -> String {
    let (exit, out, errors) = output(&mut lockstep_check(scratch, arguments));
    assert_eq!(exit, code, "{arguments:?}: {out}{errors}");
    out + &errors
}

/// A page that is served. The server is killed when dropped.
pub(crate) struct Explorer {
    pub(crate) address: String,
    scratch: Scratch,
    child: Child,
}

impl Explorer {
    pub(crate) fn start(scratch: Scratch, what: &str) -> Self {
        let errors = File::create(scratch.path("errors")).unwrap();
        let mut child = lockstep_check(&scratch, &["explore", what]).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(' ').find(|word| word.starts_with("http://"));
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}")).to_owned();
        Self { address, scratch, child }
    }

    /// What it has written to stderr so far.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.scratch.path("errors")).unwrap()
    }
}

impl Drop for Explorer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}
