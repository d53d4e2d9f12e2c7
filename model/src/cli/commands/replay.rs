//! `replay`: takes the steps of a trace file again on this build's model.

use std::io::Write;
use std::path::Path;

use crate::explain::replay as take_again;
use crate::runs::{Exit, Registry};
use crate::screen::tell;

use super::Trouble;
use super::explain::read;

/// Takes the steps of a trace file again and says what came of it.
pub(crate) fn replay(registry: &Registry, path: &Path) -> Result<Exit, Trouble> {
    let trace = read(path)?;
    let replay = take_again(&trace, registry).map_err(Trouble::Failure)?;
    for warning in &replay.warnings {
        tell(format_args!("lockstep-check: warning: {warning}"));
    }
    let steps = trace.story.steps();
    writeln!(anstream::stdout(), "{}, {} in {steps} steps: {}", trace.run, trace.property, replay.finding)?;
    Ok(replay.exit())
}
