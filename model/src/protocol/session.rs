//! A designer's program in one line: a command line, the runs, and an exit code.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, FromArgMatches, Parser};

use lockstep_spec::{FINGERPRINT, invariant};

use super::astray::{Found, Strayed, stray};
use super::checked::Checked;
use super::collective::MOST_RANKS;
use super::design::{Claims, Protocol};
use super::state::FIXED_ORDER;
use crate::cli::commands::{Subjects, Trouble};
use crate::cli::options::Gate;
use crate::cli::outputs::Program;
use crate::cli::watch::{Display, Watch};
use crate::explain::{Trace, replay};
use crate::explore::Settings;
use crate::runs::{Exit, Progress, PropertyDoc, Registry, Run, Verdict, give_up};
use crate::screen::tell;

/// Folder of this package in the checkout that it was built from: what a designer's crate depends on by path.
pub const LIBRARY: &str = env!("CARGO_MANIFEST_DIR");

/// Explores a protocol with each fault that comes for nothing.
type Strays = Box<dyn Fn(&Settings<'_>) -> Vec<Strayed>>;

/// A protocol with what its exploration must find.
pub struct Trial {
    run: Run,
    /// How many ranks its protocol has.
    ranks: usize,
    documents: Vec<PropertyDoc>,
    /// For a protocol that must hold.
    strays: Option<Strays>,
}

/// A protocol of which every property must hold.
#[track_caller]
pub fn holds<P: Protocol>(name: &'static str, protocol: P) -> Trial {
    let (documents, ranks) = (Claims::of(&protocol).documents, protocol.ranks().len());
    let protocol = Arc::new(protocol);
    let params = format!("{protocol:?}");
    let run = Run::holds(name, Progress(Checked::<P>::new(Arc::clone(&protocol)))).params(params);
    let strays: Strays = Box::new(move |settings| stray(&Checked::<P>::new(Arc::clone(&protocol)), settings));
    Trial { run, ranks, documents, strays: Some(strays) }
}

/// A protocol that must violate `property`, and no other before it.
#[track_caller]
pub fn violates<P: Protocol>(name: &'static str, property: &'static str, protocol: P) -> Trial {
    let (documents, ranks) = (Claims::of(&protocol).documents, protocol.ranks().len());
    let params = format!("{protocol:?}");
    let run = Run::mutant(name, property, Progress(Checked::new(protocol))).params(params);
    Trial { run, ranks, documents, strays: None }
}

const fn document(id: &'static str, sentence: &'static str) -> PropertyDoc {
    PropertyDoc { id, sentence, source: "", not_covered: "" }
}

const EXIT_CODES: &str = "Exit codes: 0 as expected; 2 usage; 11 stuck; 12 safety; 13 liveness; 14 assertion; 20 vacuous; \
    21 with --replay, other steps; 22 given up; 23 a run that must fail does not, or fails by another property; 70 internal. The first failing run's counts.";

/// Explores protocols and says whether they do what they must
#[derive(Parser)]
#[command(after_help = EXIT_CODES)]
struct Options {
    /// Names of runs; all if there are none
    #[arg(value_name = "RUN")]
    names: Vec<String>,
    /// Take the steps of a counterexample that --trace wrote again, instead of exploring: the same violation, or where it diverges
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "astray"], conflicts_with_all = OF_A_CHECK)]
    replay: Option<PathBuf>,
    /// Let one rank go astray at one site at a time (skip it, enter with another shape, go on with its own words) in every RUN that must
    /// hold, and show what notices: 20 if nothing does
    #[arg(long, conflicts_with_all = OF_A_CHECK)]
    astray: bool,
    #[command(flatten)]
    gate: Gate,
}

/// Options that are about runs which are performed and judged.
const OF_A_CHECK: [&str; 9] =
    ["json", "show", "trace", "checkpoint", "resume", "certificates", "artifacts", "junit", "sarif"];

/// Reads the command line, performs trials in their order, prints verdicts and counterexamples, and returns the exit code. All that a
/// designer's `main` has to do.
#[must_use]
pub fn main(trials: impl IntoIterator<Item = Trial>) -> ExitCode {
    let trials: Vec<Trial> = trials.into_iter().collect();
    if let Some(trial) = trials.iter().find(|trial| trial.ranks > MOST_RANKS) {
        let (name, ranks) = (trial.run.name, trial.ranks);
        tell(format_args!(
            "{name} has {ranks} ranks, and a protocol has {MOST_RANKS} at most: explore fewer of them"
        ));
        return ExitCode::from(Exit::Usage.code());
    }
    let (registry, strays) = registry_of(trials);
    let names = PossibleValuesParser::new(registry.runs.iter().map(|run| run.name));
    let command = Options::command().mut_arg("names", |argument| argument.value_parser(names));
    let command = command.mut_arg("show", |argument| {
        argument.help("In JSON, show counterexamples that are expected, too; text always does")
    });
    let options = match Options::from_arg_matches(&command.get_matches()) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    let performed = match &options.replay {
        Some(path) => take_again(&registry, path),
        None if options.astray => go_astray(&strays, &options),
        None => perform(&registry, &options),
    };
    let exit = match performed {
        Ok(exit) => exit,
        // Whoever reads went away before the verdict: that is no pass.
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Internal,
        Err(trouble) => {
            tell(format_args!("{trouble}"));
            trouble.exit()
        }
    };
    ExitCode::from(exit.code())
}

/// The trials' runs, with the sentences of their own properties and of those that are built in; and what explores their faults.
fn registry_of(trials: Vec<Trial>) -> (Registry, Vec<(&'static str, Strays)>) {
    let (mut runs, mut documents, mut strays) = (Vec::new(), Vec::new(), Vec::new());
    for trial in trials {
        strays.extend(trial.strays.map(|stray| (trial.run.name, stray)));
        runs.push(trial.run);
        documents.push(trial.documents);
    }
    let fixed_order = document(FIXED_ORDER, "Under a fixed order, each turn enters a collective or leaves.");
    let built_in = invariant::ALL.map(|property| document(property.id, property.sentence));
    let properties = documents.into_iter().flatten().chain(built_in).chain([fixed_order]).collect();
    let spec_fingerprint = program();
    let registry =
        Registry { runs, properties, not_covered: Vec::new(), unbroken: Vec::new(), spec_fingerprint };
    (registry, strays)
}

/// Hash of the running program, which is what these runs specify; of this crate's own specification where the program cannot be read.
fn program() -> String {
    let bytes = std::env::current_exe().and_then(fs::read);
    let hash = |bytes: Vec<u8>| {
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        format!("{:016x}", hasher.finish())
    };
    bytes.map_or_else(|_| FINGERPRINT.to_owned(), hash)
}

/// Shows of each fault what notices it.
fn go_astray(strays: &[(&'static str, Strays)], options: &Options) -> Result<Exit, Trouble> {
    let named = |name: &str| options.names.is_empty() || options.names.iter().any(|named| named == name);
    let all = || strays.iter().map(|(name, _)| *name);
    if let Some(other) = options.names.iter().find(|name| !all().any(|known| known == *name)) {
        tell(format_args!("--astray is for runs that must hold, and {other} must not; leave it out"));
        return Ok(Exit::Usage);
    }
    if strays.is_empty() {
        tell(format_args!("--astray is for runs that must hold, and there is none"));
        return Ok(Exit::Vacuous);
    }
    let effort = options.gate.effort;
    let (mut out, mut exit) = (anstream::stdout(), Exit::Ok);
    for (name, stray) in strays.iter().filter(|(name, _)| named(name)) {
        let watch = Watch::new(name, None, effort.memory_limit()?, Display::Nothing);
        let settings = Settings { observer: Some(&watch), ..effort.into() };
        for Strayed { what, found } in silently(|| stray(&settings)) {
            let (told, noticed) = match found {
                Found::Verdict(Verdict::Fault { property, .. }) => (format!("violates {property}"), Exit::Ok),
                Found::Verdict(Verdict::Vacuous { missing }) => {
                    (format!("never reaches {}", missing.join(", ")), Exit::Ok)
                }
                Found::Verdict(Verdict::Holds) => {
                    ("NOTHING NOTICES: at these bounds it does not matter".to_owned(), Exit::Vacuous)
                }
                Found::Verdict(Verdict::Unknown(unknown)) => {
                    (format!("given up: {}", give_up(&unknown)), Exit::Budget)
                }
                Found::Panicked(message) => (format!("panics: {message}"), Exit::Ok),
                Found::Unfit(why) => (why, Exit::Internal),
            };
            writeln!(out, "{name}: {what}: {told}")?;
            exit = if exit == Exit::Ok { noticed } else { exit };
        }
    }
    Ok(exit)
}

/// Does something in which panics are caught and told: they are not to be printed as well.
fn silently<T>(does: impl FnOnce() -> T) -> T {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = does();
    panic::set_hook(hook);
    done
}

fn perform(registry: &Registry, options: &Options) -> Result<Exit, Trouble> {
    if registry.runs.is_empty() {
        tell(format_args!("there is nothing to check: give `main` at least one trial"));
        return Ok(Exit::Vacuous);
    }
    let gate = Gate { show: options.gate.show || !options.gate.json, ..options.gate.clone() };
    gate.examine()?;
    let named = |run: &&Run| options.names.is_empty() || options.names.iter().any(|name| name == run.name);
    let runs = registry.runs.iter().filter(named).collect();
    let (manifest, gap, program) = (None, None, Program::Protocol);
    gate.go_through(&Subjects { registry, runs, manifest, gap, program })
}

/// Takes the steps of the counterexample in a file again.
fn take_again(registry: &Registry, path: &Path) -> Result<Exit, Trouble> {
    let read = fs::read_to_string(path).map_err(|error| error.to_string());
    let trace = match read.and_then(|text| Trace::from_json(&text).map_err(|error| error.to_string())) {
        Ok(trace) => trace,
        Err(why) => {
            tell(format_args!(
                "cannot read {}: {why}; give --replay a file that --trace wrote",
                path.display()
            ));
            return Ok(Exit::Usage);
        }
    };
    match replay(&trace, registry) {
        Ok(found) => {
            found.warnings.iter().for_each(|warning| tell(format_args!("warning: {warning}")));
            writeln!(anstream::stdout(), "{}, {}: {}", trace.run, trace.property, found.finding)?;
            Ok(found.exit())
        }
        Err(failure) => {
            tell(format_args!("{}", failure.text));
            Ok(failure.exit)
        }
    }
}
