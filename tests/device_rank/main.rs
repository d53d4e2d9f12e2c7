//! The kernels' CUDA path in a process of its own: on a GPU, or on the stand-ins that the tests lend it.
//!
//! ```text
//! device-rank kernels <device>                                      the sample computation, beside its reference
//! device-rank graph <device>                                        the same, captured and replayed
//! device-rank forwards <device> <model>                             the engine's forwards, captured and replayed
//! device-rank group <device> <rank> <size> <id's file> <scenario>   one rank of a group
//! device-rank ahead <device> <rank> <size> <id's file> <model>      one rank of a group whose forwards are launched ahead
//! device-rank <variant> <device> <rank> <size> <id's file> <model>  one rank of a conventional design, executed
//! device-rank misuse <what>                                         what the safe calls exclude, to see that it is noticed
//! ```
//!
//! Answers are lines of JSON. An error is a line on stderr and exit code 1.

#![allow(clippy::unwrap_used, reason = "a misused device that answers well ends here")]

mod ahead;
mod conventional;
mod forwards;
mod graph;
mod group;
mod misuse;

use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use lockstep_kernels::cuda::Cuda;
use lockstep_model::conventional::Variant;
use lockstep_tests::sample::{self, INDICES};
use serde_json::json;

use group::Place;

/// Longest run, whatever hangs; a driver that spins cannot be waited for.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    thread::spawn(|| {
        thread::sleep(LIMIT);
        eprintln!("device-rank: not done within {LIMIT:?}");
        std::process::exit(3);
    });
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
        ["kernels", device] => kernels(&mut Cuda::open(device.parse()?)?),
        ["graph", device] => Ok(graph::run(&mut Cuda::open(device.parse()?)?)?.to_string()),
        ["forwards", device, model] => Ok(forwards::run(device.parse()?, model.as_ref())?.to_string()),
        ["group", device, rank, size, id, scenario] => {
            let place = Place::parse([device, rank, size], id, scenario)?;
            Ok(group::run(&place)?.to_string())
        }
        ["ahead", device, rank, size, id, model] => {
            let place = Place::parse([device, rank, size], id, "ahead")?;
            Ok(ahead::run(&place, model.as_ref())?.to_string())
        }
        [variant @ ("base" | "local-retry-exhaustion"), device, rank, size, id, model] => {
            let variant = if *variant == "base" { Variant::Base } else { Variant::LocalRetryExhaustion };
            let place = Place::parse([device, rank, size], id, "conventional")?;
            Ok(conventional::run(&place, variant, model.as_ref())?.to_string())
        }
        ["misuse", what] => misuse::run(what),
        _ => Err("say what to run, as the head of tests/device_rank/main.rs has it".into()),
    }
}

/// What the device computes, and how far each kernel is from plain arithmetic; an error if one is farther than it may be.
fn kernels(cuda: &mut Cuda) -> Result<String, Box<dyn Error>> {
    let outcome = sample::compute(cuda, INDICES[0])?;
    let reference = sample::reference(INDICES[0]);
    let findings = outcome.findings();
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.holds()).collect();
    if !wrong.is_empty() {
        return Err(format!("kernels that differ from plain arithmetic: {wrong:?}").into());
    }
    Ok(json!({
        "device": cuda.name()?,
        "largest_error": outcome.largest_error(&reference),
        "tokens_equal": outcome.tokens == reference.1,
        "kernels": findings,
        "outcome": outcome,
    })
    .to_string())
}
