//! Output of performed runs, for people or as JSON.

use std::io::{self, Write};

use lockstep_model::report::{RunLine, draw, run_line, summary_line};
use lockstep_model::runs::{Performed, Registry};

const DEFAULT_WIDTH: usize = 110;

/// Where performed runs are shown.
pub(crate) struct Screen<'a> {
    registry: &'a Registry,
    json: bool,
    trace: bool,
    name_width: usize,
    width: usize,
}

impl<'a> Screen<'a> {
    /// A screen as wide as the terminal.
    pub(crate) fn new(registry: &'a Registry, json: bool, trace: bool) -> Self {
        let name_width = registry.runs.iter().map(|run| run.name.len()).max().unwrap_or(0);
        Self { registry, json, trace, name_width, width: terminal_width() }
    }

    /// Shows a performed run as soon as it is done.
    pub(crate) fn show(&self, performed: &Performed<'_>) -> io::Result<()> {
        if self.json { self.show_json(performed) } else { self.show_line(performed) }
    }

    /// Shows what is to be said of all runs together.
    pub(crate) fn sum_up(&self, performed: &[Performed<'_>]) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let failed = performed.iter().filter(|performed| performed.failure.is_some()).count();
        let most = performed
            .iter()
            .filter_map(|performed| performed.outcome.as_ref())
            .map(|outcome| outcome.counts.unique);
        writeln!(anstream::stdout(), "{}", summary_line(performed.len(), failed, most.max().unwrap_or(0)))
    }

    fn show_json(&self, performed: &Performed<'_>) -> io::Result<()> {
        let line = serde_json::to_string(&performed.json(self.trace))?;
        writeln!(io::stdout(), "{line}")
    }

    fn show_line(&self, performed: &Performed<'_>) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        let outcome = performed.outcome.as_ref();
        let line = RunLine {
            name: performed.run.name,
            name_width: self.name_width,
            finding: performed.finding(),
            expected: performed.failure.is_none(),
            counts: outcome.map(|outcome| outcome.counts).unwrap_or_default(),
            path: outcome.and_then(|outcome| outcome.path()),
            elapsed: outcome.map(|outcome| outcome.elapsed).unwrap_or_default(),
        };
        writeln!(out, "{}", run_line(&line))?;
        if let Some(failure) = &performed.failure {
            writeln!(out, "  {} {}", performed.run.name, failure.text)?;
        }
        let shown = performed.story().filter(|_| self.trace || performed.failure.is_some());
        if let Some((property, story)) = shown {
            writeln!(out, "\n{}", draw(story, (property, self.registry.sentence(property)), self.width))?;
        }
        Ok(())
    }
}

/// Columns of the terminal; `COLUMNS` wins, and without either there is a default.
fn terminal_width() -> usize {
    let wanted = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    wanted
        .or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
        .unwrap_or(DEFAULT_WIDTH)
}
