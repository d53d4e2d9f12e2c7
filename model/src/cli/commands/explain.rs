//! `explain`: shows a counterexample, from a file or explored on the spot.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::explain::{Format, Trace, refusal, render};
use crate::explore::Settings;
use crate::report::Drawing;
use crate::runs::{Exit, Failure, Performed, Registry, Run};
use crate::screen::terminal_width;

use super::Trouble;
use crate::cli::files::examine_text;
use crate::cli::options::Effort;
use crate::cli::outputs::write;
use crate::cli::watch::{Display, Watch};

/// Bytes that a trace file may have.
const MOST_BYTES: u64 = 64 << 20;

/// What to show and how.
pub(crate) struct Explain {
    /// A file or the name of a run.
    pub(crate) trace: String,
    /// How it is shown.
    pub(crate) format: Format,
    /// Whether whole states are shown.
    pub(crate) full: bool,
    /// Where it is written; on standard output without.
    pub(crate) output: Option<PathBuf>,
    /// How a run is explored.
    pub(crate) effort: Effort,
}

/// Shows a counterexample.
pub(crate) fn explain(registry: &Registry, explain: &Explain) -> Result<Exit, Trouble> {
    explain.output.as_deref().map_or(Ok(()), examine_text)?;
    let path = Path::new(&explain.trace);
    let trace = if path.is_file() {
        read(path)?
    } else {
        explored(run_called(&explain.trace, registry)?, registry, &explain.effort)?
    };
    if let Some(refused) = refusal(&trace, explain.format) {
        return Err(Trouble::Failure(refused));
    }
    let drawing = Drawing { width: terminal_width(), full: explain.full };
    let text = render(&trace, explain.format, drawing).map_err(io::Error::from)?;
    match &explain.output {
        Some(path) => write(path, &anstream::adapter::strip_str(&text).to_string())?,
        None => anstream::stdout().write_all(text.as_bytes())?,
    }
    Ok(Exit::Ok)
}

/// Reads a trace file.
pub(super) fn read(path: &Path) -> Result<Trace, Trouble> {
    let unreadable = |why: String| {
        Trouble::Failure(Failure::new(Exit::Usage, format!("cannot read {}: {why}", path.display())))
    };
    let file = fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(unreadable(format!("it has more than {} MiB, which no trace has", MOST_BYTES >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is no text".to_owned()))?;
    Trace::from_json(&text).map_err(|error| unreadable(error.to_string()))
}

/// The run of this name, where a file was looked for, too.
pub(super) fn run_called<'a>(name: &str, registry: &'a Registry) -> Result<&'a Run, Trouble> {
    let run = registry.runs.iter().find(|run| run.name == name);
    run.ok_or_else(|| {
        let text = format!("`{name}` is neither a file nor a run; `lockstep-check list` shows the runs");
        Trouble::Failure(Failure::new(Exit::Usage, text))
    })
}

/// The counterexample of a run that is explored on the spot.
pub(crate) fn explored(run: &Run, registry: &Registry, effort: &Effort) -> Result<Trace, Trouble> {
    let watch = Watch::new(run.name, None, effort.memory_limit()?, Display::Nothing);
    let settings = Settings { observer: Some(&watch), ..(*effort).into() };
    let performed = Performed::new(run, &settings, None);
    let found = Trace::of(&performed, registry);
    found.ok_or_else(|| Trouble::Failure(without_trace(&performed)))
}

/// Why there is no counterexample to explain.
fn without_trace(performed: &Performed<'_>) -> Failure {
    let (name, finding) = (performed.run.name, performed.finding());
    let exit = performed.failure.as_ref();
    let (exit, why) = exit.map_or((Exit::NotFound, ""), |failure| (failure.exit, failure.text.as_str()));
    let colon = if why.is_empty() { "" } else { ": " };
    Failure::new(exit, format!("`{name}` has no counterexample to explain ({finding}{colon}{why})"))
}
