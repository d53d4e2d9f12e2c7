//! JUnit XML in Jenkins' dialect: a suite for each purpose of runs, a test case for each run.
//!
//! A run without verdict or that could not be performed is an error; one with another verdict than it must have is a failure.

use std::collections::BTreeMap;

use super::certificate::Certificate;
use super::merge::Findings;
use crate::runs::{Exit, Failure, Purpose};

/// The text of a JUnit file.
#[must_use]
pub fn junit(findings: &Findings) -> String {
    let mut suites: BTreeMap<&'static str, Vec<Case<'_>>> = BTreeMap::new();
    for certificate in &findings.certificates {
        suites.entry(suite_of(certificate.purpose)).or_default().push(case(certificate));
    }
    for failure in &findings.failures {
        suites.entry("whole").or_default().push(whole(failure));
    }
    let suites: Vec<Suite<'_>> = suites.into_iter().map(|(name, cases)| Suite { name, cases }).collect();
    let counted = counted(suites.iter().flat_map(|suite| &suite.cases));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"lockstep-check\" {counted}>\n"
    );
    suites.iter().for_each(|suite| text += &suite.xml());
    text + "</testsuites>\n"
}

struct Suite<'a> {
    name: &'static str,
    cases: Vec<Case<'a>>,
}

struct Case<'a> {
    name: &'a str,
    seconds: f64,
    said: String,
    bad: Option<(Exit, &'a str)>,
}

const fn suite_of(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Control => "controls",
        Purpose::Hazard => "hazards",
        Purpose::Mutant => "mutants",
        Purpose::Proof => "proofs",
    }
}

fn case(certificate: &Certificate) -> Case<'_> {
    let exit = Exit::of_code(certificate.exit).unwrap_or(Exit::Internal);
    Case {
        name: &certificate.run,
        seconds: certificate.effort.seconds,
        said: said(certificate),
        bad: (!certificate.ok).then(|| (exit, certificate.failure.as_deref().unwrap_or("failed"))),
    }
}

fn whole(failure: &Failure) -> Case<'_> {
    let bad = Some((failure.exit, failure.text.as_str()));
    Case { name: "every run is there, once, from these sources", seconds: 0.0, said: String::new(), bad }
}

fn said(certificate: &Certificate) -> String {
    let size = certificate.size;
    let end = certificate.why_not.as_deref().unwrap_or("exhausted");
    let head = format!(
        "{}; {} states, {} transitions, depth {}; {end}\n{}\n",
        certificate.finding(),
        size.states,
        size.transitions,
        size.depth,
        certificate.parameters
    );
    let steps = certificate.counterexample.iter().filter(|_| !certificate.ok).flat_map(|found| &found.steps);
    let lines = steps.enumerate().map(|(index, step)| {
        let action = step.action.as_deref().unwrap_or("(start)");
        format!("{index:>4}  {action}: {}\n", step.changes.join("; "))
    });
    head + &lines.collect::<String>()
}

impl Suite<'_> {
    fn xml(&self) -> String {
        let cases: String = self.cases.iter().map(|case| case.xml(self.name)).collect();
        let counted = counted(self.cases.iter());
        format!("  <testsuite name=\"{}\" {counted} skipped=\"0\">\n{cases}  </testsuite>\n", self.name)
    }
}

impl Case<'_> {
    fn xml(&self, suite: &str) -> String {
        let (name, said) = (escape(self.name), escape(&self.said));
        let open = format!(
            "    <testcase classname=\"lockstep-check.{suite}\" name=\"{name}\" time=\"{:.3}\">\n",
            self.seconds
        );
        let bad = self.bad.map_or_else(String::new, |(exit, text)| {
            let element = element(exit);
            format!(
                "      <{element} type=\"exit {}\" message=\"{}\">{said}</{element}>\n",
                exit.code(),
                escape(text)
            )
        });
        let out = if self.bad.is_none() {
            format!("      <system-out>{said}</system-out>\n")
        } else {
            String::new()
        };
        format!("{open}{bad}{out}    </testcase>\n")
    }
}

/// What JUnit calls it: errors are tests that came to no result.
const fn element(exit: Exit) -> &'static str {
    match exit {
        Exit::Budget | Exit::Internal | Exit::Usage => "error",
        Exit::Ok
        | Exit::Stuck
        | Exit::Safety
        | Exit::Liveness
        | Exit::Assertion
        | Exit::Vacuous
        | Exit::Moved
        | Exit::NotFound => "failure",
    }
}

fn counted<'a>(cases: impl Iterator<Item = &'a Case<'a>>) -> String {
    let (mut tests, mut failures, mut errors, mut seconds) = (0, 0, 0, 0.0);
    for case in cases {
        tests += 1;
        seconds += case.seconds;
        let element = case.bad.map(|(exit, _)| element(exit));
        failures += u32::from(element == Some("failure"));
        errors += u32::from(element == Some("error"));
    }
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds:.3}\"")
}

/// Text for XML; characters that XML cannot hold are left out.
fn escape(text: &str) -> String {
    let holds = |character: &char| {
        matches!(character, '\n' | '\t')
            || !(character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}'))
    };
    let kept: String = text.chars().filter(holds).collect();
    kept.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
