//! `replay`: takes the steps of a trace file again on this build's model.

use std::io::{self, Write};
use std::path::Path;

use crate::explain::{Finding, Replay, Trace, replay as take_again};
use crate::runs::{Exit, Registry};
use crate::screen::tell;
use serde_json::json;

use super::Trouble;
use super::explain::read;

/// Takes the steps of a trace file again and says what came of it.
pub(crate) fn replay(registry: &Registry, path: &Path, json: bool) -> Result<Exit, Trouble> {
    let trace = read(path)?;
    let replay = take_again(&trace, registry).map_err(Trouble::Failure)?;
    if json {
        print_json(&trace, &replay)?
    } else {
        print(&trace, &replay)?
    }
    Ok(replay.exit())
}

fn print(trace: &Trace, replay: &Replay) -> io::Result<()> {
    for warning in &replay.warnings {
        tell(format_args!("lockstep-check: warning: {warning}"));
    }
    let steps = trace.story.steps();
    writeln!(anstream::stdout(), "{}, {} in {steps} steps: {}", trace.run, trace.property, replay.finding)
}

fn print_json(trace: &Trace, replay: &Replay) -> io::Result<()> {
    let (finding, step) = match &replay.finding {
        Finding::Same => ("same", None),
        Finding::Diverges { step, .. } => ("diverges", Some(step)),
        Finding::Elsewhere(_) => ("elsewhere", None),
    };
    let line = json!({
        "run": trace.run,
        "property": trace.property,
        "steps": trace.story.steps(),
        "finding": finding,
        "diverges_at": step,
        "said": replay.finding.to_string(),
        "warnings": replay.warnings,
        "exit": replay.exit().code(),
    });
    writeln!(io::stdout(), "{line}")
}
