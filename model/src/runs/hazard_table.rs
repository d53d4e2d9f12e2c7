//! The table of hazards: each design in both loops, and what the synchronous loop does for it.

use super::checks::{count, table};
use super::listing::Registry;
use super::manifest::{Manifest, Record};
use super::run::{Expect, Purpose, Run};

/// A design in use, in the loops in which it is explored.
struct Design<'a> {
    name: &'a str,
    normal: Option<&'a Run>,
    overlap: Option<&'a Run>,
}

impl<'a> Design<'a> {
    /// Anyone of its runs, for what they have in common.
    fn run(&self) -> Option<&'a Run> {
        self.overlap.or(self.normal)
    }

    /// The design with one run more.
    fn with(&mut self, run: &'a Run) {
        if run.name.ends_with(NORMAL) { self.normal = Some(run) } else { self.overlap = Some(run) }
    }
}

const NORMAL: &str = "-normal";
const OVERLAP: &str = "-overlap";

/// The table, and where else hazards are shown.
pub(super) fn hazard_table(registry: &Registry, manifest: &Manifest) -> String {
    let rows: Vec<_> = designs(registry).iter().map(|design| row(design, manifest)).collect();
    let headings = [
        "hazard",
        "what is wrong",
        "violates under overlap",
        "steps",
        "violates in the normal loop",
        "steps",
        "by the normal loop",
    ];
    let right = [false, false, false, true, false, true, false];
    format!("{READING}\n{}{}", table(headings, right, &rows), elsewhere(registry))
}

const READING: &str = "\
Each row changes one rule of a design that holds. The normal loop waits for a forward before the next turn; the last
column says what that does for the rule: *masked* (no violation without overlap), *narrowed* (a longer shortest way
without it), or *unaffected*. The property is the one that falls first: who skips a collective in one loop may leave
another rank waiting for it in the other, before their round ends.
";

fn designs(registry: &Registry) -> Vec<Design<'_>> {
    let mut designs: Vec<Design<'_>> = Vec::new();
    for run in registry.runs.iter().filter(|run| run.purpose == Purpose::Hazard) {
        let name = run.name.strip_suffix(NORMAL).or(run.name.strip_suffix(OVERLAP)).unwrap_or(run.name);
        match designs.iter_mut().find(|design| design.name == name) {
            Some(design) => design.with(run),
            None => {
                let mut design = Design { name, normal: None, overlap: None };
                design.with(run);
                designs.push(design);
            }
        }
    }
    designs
}

fn row(design: &Design<'_>, manifest: &Manifest) -> [String; 7] {
    let record = |run: Option<&Run>| run.and_then(|run| manifest.find(run.name));
    let [overlap, normal] = [design.overlap, design.normal].map(|run| (run, record(run)));
    let told = design.run().map(|run| run.params.replacen(", normal", "", 1).replacen(", overlap", "", 1));
    let [violated, steps] = finding(overlap);
    let [violated_normally, steps_normally] = finding(normal);
    let protection = protection(normal.1, overlap.1).to_owned();
    let name = format!("`{}`", design.name);
    [name, told.unwrap_or_default(), violated, steps, violated_normally, steps_normally, protection]
}

fn finding((run, record): (Option<&Run>, Option<&Record>)) -> [String; 2] {
    let steps = || count(record, |record| u64::from(record.path.unwrap_or_default()));
    match run.map(|run| run.expect) {
        None => [String::new(), String::new()],
        Some(Expect::Holds | Expect::Loses(_) | Expect::Moves(_)) => ["nothing".to_owned(), String::new()],
        Some(Expect::Violates(property)) => [format!("`{property}`"), steps()],
    }
}

/// What the normal loop does for a design, by what was recorded of it in both.
#[must_use]
pub fn protection(normal: Option<&Record>, overlap: Option<&Record>) -> &'static str {
    let (Some(normal), Some(overlap)) = (normal, overlap) else { return "" };
    match (normal.path, overlap.path) {
        (None, Some(_)) => "masked",
        (Some(normal), Some(overlap)) if normal > overlap => "narrowed",
        (Some(_) | None, Some(_) | None) => "unaffected",
    }
}

/// Hazards of the catalogue that are faults of the protocol itself.
fn elsewhere(registry: &Registry) -> String {
    let shown = registry.runs.iter().filter_map(|run| Some((run.shows?, run.name)));
    let lines: Vec<String> =
        shown.map(|(hazard, run)| format!("* `{hazard}`: the mutant `{run}`\n")).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "\nHazards that are faults of the protocol itself are among the mutants below:\n\n{}",
        lines.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::manifest::RecordedExpect;

    fn record(path: Option<u32>) -> Record {
        Record {
            name: "design".to_owned(),
            expect: RecordedExpect::Holds,
            spec: String::new(),
            property: None,
            unique: 1,
            transitions: 1,
            depth: 1,
            path,
            stated: None,
        }
    }

    #[test]
    fn hazard_table_says_what_the_normal_loop_does() {
        let said = |normal, overlap| protection(Some(&record(normal)), Some(&record(overlap)));
        assert_eq!(said(None, Some(9)), "masked");
        assert_eq!(said(Some(11), Some(9)), "narrowed");
        assert_eq!([said(Some(9), Some(9)), said(Some(7), Some(9)), said(Some(9), None)], ["unaffected"; 3]);
        assert_eq!(protection(None, Some(&record(Some(9)))), "");
    }
}
