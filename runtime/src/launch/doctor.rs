//! `lockstep doctor`: what this machine offers to a `serve` with the same flags, and what to do about what is missing.
//!
//! Nothing is started. What `serve` would refuse is found by asking the same questions, but for the directory of `--trace`,
//! which is not made here; a port is bound and given back, the model is loaded and dropped.
//!
//! Reading order: here, `finding`, then the questions: `machine`, `devices`, `model`, `ports`.

mod devices;
mod finding;
mod machine;
mod model;
mod ports;

use super::Parts;
use super::cli::DoctorFlags;
use super::error::LaunchError;
use crate::supervisor::tell;
use finding::{Finding, Report};

/// Looks at everything, says what is there, and fails if `serve` could not run.
pub(crate) fn run(flags: &DoctorFlags, parts: &Parts) -> Result<(), LaunchError> {
    let report = Report::of(findings(flags, parts));
    let text = if flags.json { report.json() } else { report.to_string() };
    tell(text.trim_end());
    match report.missing() {
        0 => Ok(()),
        missing => Err(LaunchError::Unfit { missing }),
    }
}

fn findings(flags: &DoctorFlags, parts: &Parts) -> Vec<Finding> {
    let serve = &flags.serve;
    let (mut findings, needs) = model::examine(&serve.front.group, parts);
    findings.extend(machine::examine(&serve.front.group, needs));
    findings.extend(devices::examine(serve, needs));
    findings.extend(ports::examine(serve));
    findings
}
