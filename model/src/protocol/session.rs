//! A designer's program in one line: a command line, the runs, and an exit code.

use std::io;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, FromArgMatches, Parser};

use lockstep_spec::{FINGERPRINT, invariant};

use super::checked::Checked;
use super::design::{Claims, Protocol};
use super::state::FIXED_ORDER;
use crate::runs::{Effort, Exit, Performed, Progress, PropertyDoc, Registry, Run};
use crate::screen::Screen;

/// Folder of this package in the checkout that it was built from: what a designer's crate depends on by path.
pub const LIBRARY: &str = env!("CARGO_MANIFEST_DIR");

/// A protocol with what its exploration must find.
pub struct Trial {
    run: Run,
    documents: Vec<PropertyDoc>,
}

/// A protocol of which every property must hold.
#[track_caller]
pub fn holds<P: Protocol>(name: &'static str, protocol: P) -> Trial {
    let documents = Claims::of(&protocol).documents;
    Trial { run: Run::holds(name, Progress(Checked(protocol))), documents }
}

/// A protocol that must violate `property`, and no other before it.
#[track_caller]
pub fn violates<P: Protocol>(name: &'static str, property: &'static str, protocol: P) -> Trial {
    let documents = Claims::of(&protocol).documents;
    Trial { run: Run::mutant(name, property, Progress(Checked(protocol))), documents }
}

const fn document(id: &'static str, sentence: &'static str) -> PropertyDoc {
    PropertyDoc { id, sentence, source: "", not_covered: "" }
}

const EXIT_CODES: &str = "Exit codes: 0 as expected; 2 usage; 11 stuck; 12 safety; 13 liveness; 14 assertion; 20 vacuous; \
    22 given up; 23 an expected violation was not found; 70 internal. The first failing run's counts.";

/// Explores protocols and says whether they do what they must
#[derive(Parser)]
#[command(after_help = EXIT_CODES)]
struct Options {
    /// Names of runs; all if there are none
    #[arg(value_name = "RUN")]
    names: Vec<String>,
    /// Print one JSON object a run
    #[arg(long)]
    json: bool,
    /// In JSON, show counterexamples that are expected, too; text always does
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    effort: Effort,
}

/// Reads the command line, performs trials in their order, prints verdicts and counterexamples, and returns the exit code. All that a
/// designer's `main` has to do.
#[must_use]
pub fn main(trials: impl IntoIterator<Item = Trial>) -> ExitCode {
    let registry = registry_of(trials);
    let names = PossibleValuesParser::new(registry.runs.iter().map(|run| run.name));
    let command = Options::command().mut_arg("names", |argument| argument.value_parser(names));
    let options = match Options::from_arg_matches(&command.get_matches()) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    let exit = match perform(&registry, options) {
        Ok(exit) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(error) => {
            anstream::eprintln!("cannot write the output: {error}");
            Exit::Internal
        }
    };
    ExitCode::from(exit.code())
}

/// The trials' runs, with the sentences of their own properties and of those that are built in.
fn registry_of(trials: impl IntoIterator<Item = Trial>) -> Registry {
    let (runs, documents): (Vec<Run>, Vec<_>) =
        trials.into_iter().map(|trial| (trial.run, trial.documents)).unzip();
    let fixed_order = document(FIXED_ORDER, "Under a fixed order, each turn enters a collective or leaves.");
    let built_in = invariant::ALL.map(|property| document(property.id, property.sentence));
    let properties = documents.into_iter().flatten().chain(built_in).chain([fixed_order]).collect();
    let spec_fingerprint = FINGERPRINT.to_owned();
    Registry { runs, properties, not_covered: Vec::new(), unbroken: Vec::new(), spec_fingerprint }
}

fn perform(registry: &Registry, options: Options) -> io::Result<Exit> {
    if registry.runs.is_empty() {
        anstream::eprintln!("there is nothing to check: give `main` at least one trial");
        return Ok(Exit::Vacuous);
    }
    let named = |run: &&Run| options.names.is_empty() || options.names.iter().any(|name| name == run.name);
    let runs: Vec<&Run> = registry.runs.iter().filter(named).collect();
    let screen = Screen::new(registry, options.json, options.trace || !options.json);
    let settings = options.effort.into();
    let mut performed = Vec::new();
    for run in runs {
        let one = Performed::new(run, &settings, None);
        screen.show(&one, None)?;
        performed.push(one);
    }
    screen.sum_up(&performed)?;
    let failure = performed.iter().find_map(|performed| performed.failure.as_ref());
    Ok(failure.map_or(Exit::Ok, |failure| failure.exit))
}
