//! The `lockstep` program: everything is in the library, and this names the parts it is put together from.

#![forbid(unsafe_code)]

use lockstep_runtime::frontend::load_text;
use lockstep_runtime::launch::{Parts, run};
use lockstep_runtime::supervisor::Limits;
use lockstep_runtime::{proved, rank};
use std::process::ExitCode;

fn main() -> ExitCode {
    run(&Parts {
        rank: rank::run,
        enlisted: rank::run_enlisted,
        codec: load_text,
        statement: proved::statement,
        limits: Limits::default(),
    })
}
