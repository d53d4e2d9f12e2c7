//! Output of performed runs, for people or as JSON.

use std::io::{self, Write};
use std::time::Duration;

use crate::ci::{Certificate, Findings};
use crate::explore::Counts;
use crate::report::{Drawing, RunLine, Story, draw, gaps_line, narrow_lines, run_line, summary_line};
use crate::runs::{Failure, Manifest, Performed, Registry};
use serde::Serialize;

/// Columns of drawings where there is no terminal.
pub(crate) const DEFAULT_WIDTH: usize = 110;

/// A line of JSON: the certificate, with the whole counterexample if it is asked for or unexpected.
#[derive(Serialize)]
struct JsonLine<'a> {
    #[serde(flatten)]
    certificate: &'a Certificate,
    #[serde(skip_serializing_if = "Option::is_none")]
    story: Option<&'a Story>,
}

/// Where performed runs are shown.
pub struct Screen<'a> {
    registry: &'a Registry,
    json: bool,
    show_expected: bool,
    name_width: usize,
    width: usize,
    /// Columns that a line may have; any number where nothing would break it.
    most: Option<usize>,
}

impl<'a> Screen<'a> {
    /// A screen as wide as the terminal.
    #[must_use]
    pub fn new(registry: &'a Registry, json: bool, show_expected: bool) -> Self {
        let name_width = registry.runs.iter().map(|run| run.name.len()).max().unwrap_or(0);
        let (width, most) = (terminal_width(), stdout_width());
        Self { registry, json, show_expected, name_width, width, most }
    }

    /// Shows a performed run as soon as it is done.
    ///
    /// # Errors
    /// That the output cannot be written.
    pub fn show(&self, performed: &Performed<'_>, manifest: Option<&Manifest>) -> io::Result<()> {
        if !self.json {
            return self.show_line(performed);
        }
        let recorded = manifest.and_then(|manifest| manifest.find(performed.run.name));
        let certificate = Certificate::of(performed, self.registry, recorded);
        let story = performed.story().filter(|_| self.show_expected || performed.failure.is_some());
        print_json(&JsonLine { certificate: &certificate, story: story.map(|(_, story)| story) })
    }

    /// Shows a run that was performed elsewhere.
    ///
    /// # Errors
    /// That the output cannot be written.
    pub fn show_certificate(&self, certificate: &Certificate) -> io::Result<()> {
        if self.json {
            return print_json(certificate);
        }
        let size = certificate.size;
        let line = RunLine {
            name: &certificate.run,
            name_width: self.name_width,
            finding: certificate.finding(),
            expected: certificate.ok,
            counts: Counts { unique: size.states, transitions: size.transitions, depth: size.depth },
            path: certificate.numbers().path,
            elapsed: Duration::try_from_secs_f64(certificate.effort.seconds).unwrap_or_default(),
        };
        let mut out = anstream::stdout().lock();
        self.write_line(&mut out, &line)?;
        certificate.failure.iter().try_for_each(|text| writeln!(out, "  {} {text}", certificate.run))
    }

    /// Shows what is to be said of all certificates together.
    ///
    /// # Errors
    /// That the output cannot be written.
    pub fn sum_up_certificates(&self, findings: &Findings) -> io::Result<()> {
        let certificates = &findings.certificates;
        let failed = certificates.iter().filter(|certificate| !certificate.ok).count();
        let most = certificates.iter().map(|certificate| certificate.size.states).max().unwrap_or(0);
        self.print_summary(certificates.len(), failed, most)?;
        self.print_gaps(findings.failures.len())
    }

    /// Says what is wrong with the whole, where it does not disturb what was shown.
    ///
    /// # Errors
    /// That the output cannot be written.
    pub fn complain(&self, failures: &[Failure]) -> io::Result<()> {
        let mut out = anstream::stderr().lock();
        failures.iter().try_for_each(|failure| writeln!(out, "lockstep-check: {}", failure.text))
    }

    /// Draws a counterexample.
    ///
    /// # Errors
    /// That the output cannot be written.
    pub fn show_story(&self, property: &str, story: &Story) -> io::Result<()> {
        let said = (property, self.registry.sentence(property));
        writeln!(anstream::stdout(), "\n{}", draw(story, said, Drawing { width: self.width, full: false }))
    }

    /// Shows what is to be said of all runs together.
    ///
    /// # Errors
    /// That the output cannot be written.
    pub fn sum_up(&self, performed: &[Performed<'_>]) -> io::Result<()> {
        let failed = performed.iter().filter(|performed| performed.failure.is_some()).count();
        let most = performed
            .iter()
            .filter_map(|performed| performed.outcome.as_ref())
            .map(|outcome| outcome.counts.unique);
        self.print_summary(performed.len(), failed, most.max().unwrap_or(0))
    }

    /// One line of a run, or three where the terminal would break it even with its time moved close.
    fn write_line(&self, out: &mut impl Write, line: &RunLine<'_>) -> io::Result<()> {
        let whole = run_line(line);
        let closer = closer(&whole);
        let fits = |line: &String| self.most.is_none_or(|most| columns_of(line) <= most);
        let drawn = [whole, closer].into_iter().find(fits);
        writeln!(out, "{}", drawn.unwrap_or_else(|| narrow_lines(line)))
    }

    fn print_summary(&self, runs: usize, failed: usize, most: u64) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(anstream::stdout(), "{}", summary_line(runs, failed, most))
    }

    /// Shows that something is wrong beside the runs: without it a list from which runs are missing would look whole.
    ///
    /// # Errors
    /// That the output cannot be written.
    pub fn print_gaps(&self, gaps: usize) -> io::Result<()> {
        if self.json || gaps == 0 {
            return Ok(());
        }
        writeln!(anstream::stdout(), "{}", gaps_line(gaps))
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
        self.write_line(&mut out, &line)?;
        if let Some(failure) = &performed.failure {
            writeln!(out, "  {} {}", performed.run.name, failure.text)?;
        }
        drop(out);
        let shown = performed.story().filter(|_| self.show_expected || performed.failure.is_some());
        shown.map_or(Ok(()), |(property, story)| self.show_story(property, story))
    }
}

/// Columns that a line with ANSI styles takes.
fn columns_of(line: &str) -> usize {
    anstream::adapter::strip_str(line).to_string().chars().count()
}

/// A line with a single blank of those before its last number.
fn closer(line: &str) -> String {
    match line.rfind("  ") {
        Some(at) => format!("{} {}", line[..at].trim_end_matches(' '), &line[at + 2..]),
        None => line.to_owned(),
    }
}

fn print_json(line: &impl Serialize) -> io::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(line)?)
}

/// Says something to whoever looks on, on standard error. That nobody can hear it is no reason to end.
pub(crate) fn tell(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Columns of the terminal; `COLUMNS` wins, and without either there is a default.
#[must_use]
pub fn terminal_width() -> usize {
    let any = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    columns_wanted().or_else(any).unwrap_or(DEFAULT_WIDTH)
}

/// Columns that a line on standard output may have: `COLUMNS`, or those of its terminal; any number without one.
pub(crate) fn stdout_width() -> Option<usize> {
    let own = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    columns_wanted().or_else(own)
}

/// Columns that a line on standard error may have, as [`stdout_width`] tells them.
pub(crate) fn stderr_width() -> Option<usize> {
    let own = || terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
    columns_wanted().or_else(own)
}

fn columns_wanted() -> Option<usize> {
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok())
}
