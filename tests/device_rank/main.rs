//! The kernels' CUDA path in a process of its own: on a GPU, or on the stand-ins that the tests lend it.
//!
//! ```text
//! device-rank kernels <device>                          the sample computation; its outcome as JSON
//! device-rank graph <device>                            the same, captured and replayed
//! device-rank group <rank> <size> <id's file> <scenario>   one rank of a group
//! device-rank misuse <what>                             what the safe calls exclude, to see that the stand-in notices
//! ```
//!
//! Answers are lines of JSON. An error is a line on stderr and exit code 1.

#![allow(clippy::unwrap_used, reason = "a misused device that answers well ends here")]

mod graph;
mod group;
mod misuse;

use std::error::Error;
use std::process::ExitCode;

use lockstep_kernels::cuda::Cuda;
use lockstep_tests::sample::{self, INDICES};

use group::Place;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("device-rank: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<String, Box<dyn Error>> {
    match words {
        ["kernels", device] => {
            let outcome = sample::compute(&mut Cuda::open(device.parse()?)?, INDICES[0])?;
            Ok(serde_json::to_string(&outcome)?)
        }
        ["graph", device] => Ok(graph::run(&mut Cuda::open(device.parse()?)?)?.to_string()),
        ["group", rank, size, id, scenario] => {
            Ok(group::run(&Place::parse(rank, size, id, scenario)?)?.to_string())
        }
        ["misuse", what] => misuse::run(what),
        _ => Err(
            "say what to run: kernels <device>, graph <device>, group <rank> <size> <id's file> <scenario>, misuse <what>"
                .into(),
        ),
    }
}
