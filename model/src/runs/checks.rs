//! The text of CHECKS.md: what is proved, what must fail, and what neither shows.
//!
//! Everything in it is the same on any machine; so there are no times.

use super::coverage_table::coverage_text;
use super::hazard_table::hazard_table;
use super::listing::Registry;
use super::manifest::{Manifest, Record};
use super::run::{Class, Expect, PropertyDoc, Purpose, Ranks, Role, Run, Tier};
use crate::coverage::Coverage;
use crate::report::grouped;

const HOW_TO_READ: &str = "\
<!-- Written by `lockstep-check record`. Do not edit: `lockstep-check record --check` compares. -->

# What is checked

## How to read this

A *run* is a model at one size, explored to its end: every state that can be reached, by every interleaving. There is
no cap and no sampling; a run that is given up is no proof and fails. *States* are distinct states, *depth* is the
greatest distance from the start. Both are exact and the same on any machine with any number of threads, and a run
whose numbers move fails until the change is recorded and reviewed.

A run *holds* if no reachable state violates a property, no rank is stuck, every witness is reached, every kind of
action has fired and, where progress is checked, no fair behaviour waits for ever. A run that *must fail* is explored
until the property it names is violated. Its *steps* are the length of the shortest way there; the run fails if the
property holds or another one is violated first. Where a fault only keeps the protocol from doing something, the run
must hold and never reach what it names.

Repeat any of it with `lockstep-check check RUN`, and see a counterexample with `lockstep-check explain RUN`.
";

/// The text of CHECKS.md.
#[must_use]
pub fn checks_text(registry: &Registry, manifest: &Manifest, coverage: &Coverage) -> String {
    let mut text = HOW_TO_READ.to_owned();
    text += &section("Properties", &properties(registry));
    text += &section("What is proved", &proofs(registry, manifest));
    text += &coverage_text(coverage).map_or_else(String::new, |text| section("What the proofs reach", &text));
    text += &section("What must fail", &failures(registry, manifest));
    text += &section("Not covered", &not_covered(registry));
    text
}

fn section(title: &str, body: &str) -> String {
    format!("\n## {title}\n\n{body}")
}

fn properties(registry: &Registry) -> String {
    let row = |property: &PropertyDoc| {
        let broken: Vec<String> =
            registry.breaking(property.id).map(|run| format!("`{}`", run.name)).collect();
        [
            format!("`{}`", property.id),
            property.sentence.to_owned(),
            property.source.to_owned(),
            broken.join(", "),
        ]
    };
    let rows: Vec<_> = registry.properties.iter().map(row).collect();
    table(["property", "says that", "source", "broken by"], [false; 4], &rows)
}

fn proofs(registry: &Registry, manifest: &Manifest) -> String {
    let holding = registry.runs.iter().filter(|run| holds(run));
    let rows: Vec<_> =
        holding.map(|run| proof_row(run, manifest.find(run.name), &registry.spec_fingerprint)).collect();
    let headings = ["run", "size", "part of the proof for", "tier", "states", "transitions", "depth"];
    table(headings, [false, false, false, false, true, true, true], &rows)
}

/// Whether a run is listed among the proofs; a design that one loop protects is listed with its hazard.
fn holds(run: &Run) -> bool {
    run.expect == Expect::Holds && run.purpose != Purpose::Hazard
}

fn proof_row(run: &Run, record: Option<&Record>, spec: &str) -> [String; 7] {
    let earlier =
        if record.is_some_and(|record| record.spec != spec) { " (an earlier specification)" } else { "" };
    [
        format!("`{}`", run.name),
        run.params.clone(),
        run.proves.map_or_else(String::new, class_text),
        format!("{}{earlier}", tier_text(run.tier)),
        count(record, |record| record.unique),
        count(record, |record| record.transitions),
        count(record, |record| u64::from(record.depth)),
    ]
}

/// A number of a record.
pub(super) fn count(record: Option<&Record>, number: fn(&Record) -> u64) -> String {
    record.map_or_else(|| "not recorded".to_owned(), |record| grouped(number(record)))
}

fn failures(registry: &Registry, manifest: &Manifest) -> String {
    let hazards = hazard_table(registry, manifest);
    format!(
        "### Hazards: designs in use\n\n{hazards}\n### Mutants: the protocol with a fault put in\n\n{}",
        mutants(registry, manifest)
    )
}

fn mutants(registry: &Registry, manifest: &Manifest) -> String {
    let runs = registry.runs.iter().filter(|run| run.purpose == Purpose::Mutant);
    let rows: Vec<_> = runs.map(|run| mutant_row(run, manifest.find(run.name))).collect();
    let headings = ["run", "rule", "size", "must", "steps", "states"];
    let right = [false, false, false, false, true, true];
    format!("{}{}", table(headings, right, &rows), unbroken(registry))
}

fn mutant_row(run: &Run, record: Option<&Record>) -> [String; 6] {
    let (must, steps) = match run.expect {
        Expect::Holds => ("hold".to_owned(), String::new()),
        Expect::Violates(property) => (
            format!("violate `{property}`"),
            count(record, |record| u64::from(record.path.unwrap_or_default())),
        ),
        Expect::Loses(situation) => (format!("never reach \"{situation}\""), String::new()),
        Expect::Moves(shipped) => (format!("go other ways than `{shipped}`"), String::new()),
    };
    let rule = run.rule.unwrap_or_default().to_owned();
    [format!("`{}`", run.name), rule, run.params.clone(), must, steps, count(record, |record| record.unique)]
}

fn unbroken(registry: &Registry) -> String {
    if registry.unbroken.is_empty() {
        return String::new();
    }
    let lines: String = registry.unbroken.iter().map(|(rule, why)| format!("* {rule}: {why}\n")).collect();
    format!("\nRules without a mutant:\n\n{lines}")
}

fn not_covered(registry: &Registry) -> String {
    let gap = |property: &&PropertyDoc| !property.not_covered.is_empty();
    let of_properties = registry
        .properties
        .iter()
        .filter(gap)
        .map(|property| format!("`{}`: {}", property.id, property.not_covered));
    let lines = registry.not_covered.iter().map(ToString::to_string).chain(of_properties);
    lines.map(|line| format!("* {line}\n")).collect()
}

/// A table in Markdown.
pub(super) fn table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    right: [bool; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> String {
    if rows.is_empty() {
        return "None.\n".to_owned();
    }
    let mut text = format!("| {} |\n|", headings.join(" | "));
    right.iter().for_each(|right| text += if *right { "---:|" } else { "---|" });
    text.push('\n');
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

/// A class of proof in words.
#[must_use]
pub fn class_text(class: Class) -> String {
    let role = match class.role {
        Role::Decode => "decode",
        Role::Prefill => "prefill",
    };
    let mode = class.mode.name();
    let ranks = match class.ranks {
        Ranks::One => "1 rank",
        Ranks::Two => "2 ranks",
        Ranks::More => "3 or more ranks",
    };
    format!("{role}, {mode}, {ranks}")
}

/// A tier in words.
#[must_use]
pub const fn tier_text(tier: Tier) -> &'static str {
    match tier {
        Tier::Quick => "quick",
        Tier::Pr => "pr",
        Tier::Nightly => "nightly",
    }
}
