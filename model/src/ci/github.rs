//! Annotations and the step summary of GitHub Actions.

use super::certificate::{Certificate, Expected, Place};
use super::merge::Findings;
use crate::report::grouped;
use crate::runs::RecordedExpect;

/// Runs that a summary lists one by one; the others are only counted.
const MOST_ROWS: usize = 200;

/// One annotation for each run that is not as it must be, and for each failure of the whole, as workflow commands.
#[must_use]
pub fn annotations(findings: &Findings) -> Vec<String> {
    let bad = findings.certificates.iter().filter(|certificate| !certificate.ok);
    let of_runs = bad.map(|certificate| {
        let text = certificate.failure.as_deref().unwrap_or("fails");
        annotation(Some(&certificate.listed), &certificate.run, text)
    });
    let whole = findings.failures.iter().map(|failure| annotation(None, "lockstep-check", &failure.text));
    of_runs.chain(whole).collect()
}

fn annotation(place: Option<&Place>, title: &str, text: &str) -> String {
    let title = property(title);
    let at = place
        .map_or_else(String::new, |place| format!("file={},line={},", property(&place.file), place.line));
    format!("::error {at}title={title}::{}", data(text))
}

/// A Markdown table of what was found.
#[must_use]
pub fn step_summary(findings: &Findings) -> String {
    let (runs, failed) = (findings.certificates.len(), findings.failed());
    let verdict = if failed == 0 { "as expected" } else { "**not** as expected" };
    let mut text = format!("## Model checking: {verdict}\n\n{runs} runs, {failed} failures.\n\n");
    for failure in &findings.failures {
        text += &format!("* {}\n", cell(&failure.text));
    }
    text += "\n| | run | must | found | states | transitions | depth | steps | seconds |\n";
    text += "|---|---|---|---|---:|---:|---:|---:|---:|\n";
    let mut rows: Vec<&Certificate> = findings.certificates.iter().collect();
    rows.sort_by_key(|certificate| certificate.ok);
    rows.iter().take(MOST_ROWS).for_each(|certificate| text += &row(certificate));
    if let Some(rest) = rows.len().checked_sub(MOST_ROWS + 1) {
        text += &format!("\nand {} more, as expected or not: see the certificates.\n", rest + 1);
    }
    text
}

fn row(certificate: &Certificate) -> String {
    let mark = if certificate.ok { "✓" } else { "✗" };
    let size = certificate.size;
    let must = must(&certificate.expected);
    let steps = certificate.numbers().path.map_or_else(String::new, |path| path.to_string());
    let found = match &certificate.failure {
        Some(failure) => format!("{}: {}", certificate.finding(), cell(failure)),
        None => certificate.finding(),
    };
    format!(
        "| {mark} | `{}` | {must} | {found} | {} | {} | {} | {steps} | {:.1} |\n",
        certificate.run,
        grouped(size.states),
        grouped(size.transitions),
        size.depth,
        certificate.effort.seconds
    )
}

fn must(expected: &Expected) -> String {
    let Expected { verdict, property } = expected;
    let named = property.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
    match verdict {
        RecordedExpect::Holds => "hold".to_owned(),
        RecordedExpect::Violates => format!("violate{named}"),
        RecordedExpect::Loses => format!("lose{named}"),
        RecordedExpect::Moves => format!("move{named}"),
    }
}

/// Text that stays in its cell of a table, and in its line.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\r', '\n'], " ")
}

/// Text of a workflow command's message.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Value of a workflow command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
