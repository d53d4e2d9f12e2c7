//! `explain`: shows a counterexample, from a file or explored on the spot.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use lockstep_model::explain::{Format, Trace, render};
use lockstep_model::explore::Settings;
use lockstep_model::report::Drawing;
use lockstep_model::runs::{Exit, Failure, Performed, Registry};
use lockstep_model::screen::terminal_width;

use super::Trouble;
use crate::outputs::write;

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
    pub(crate) settings: Settings<'static>,
}

/// Shows a counterexample.
pub(crate) fn explain(registry: &Registry, explain: &Explain) -> Result<Exit, Trouble> {
    let path = Path::new(&explain.trace);
    let trace =
        if path.is_file() { read(path)? } else { explored(&explain.trace, registry, &explain.settings)? };
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

fn explored(name: &str, registry: &Registry, settings: &Settings<'_>) -> Result<Trace, Trouble> {
    let unknown = |_| {
        let text = format!("`{name}` is neither a file nor a run; `lockstep-check list` shows the runs");
        Trouble::Failure(Failure::new(Exit::Usage, text))
    };
    let runs = registry.named(&[name.to_owned()]).map_err(unknown)?;
    let performed = runs.first().map(|run| Performed::new(run, settings, None));
    let found = performed.as_ref().and_then(|performed| Trace::of(performed, registry));
    found.ok_or_else(|| Trouble::Failure(without_trace(name, performed.as_ref())))
}

/// Why there is no counterexample to explain.
fn without_trace(name: &str, performed: Option<&Performed<'_>>) -> Failure {
    let finding = performed.map_or_else(|| "not performed".to_owned(), Performed::finding);
    let exit = performed.and_then(|performed| performed.failure.as_ref());
    let (exit, why) = exit.map_or((Exit::NotFound, ""), |failure| (failure.exit, failure.text.as_str()));
    let colon = if why.is_empty() { "" } else { ": " };
    Failure::new(exit, format!("`{name}` has no counterexample to explain ({finding}{colon}{why})"))
}
