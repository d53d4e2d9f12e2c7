//! The program `lockstep-check`: performs runs, records what they find, and explains it.
//!
//! Exit codes are told by `--help`, from [`EXIT_CODES`].

mod browser;
mod chance;
mod checkpoint;
pub(crate) mod commands;
mod files;
mod help;
pub(crate) mod options;
pub(crate) mod outputs;
pub(crate) mod watch;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::explain::Format;
use crate::runs::{Exit, Places, Tier, registry};
use crate::screen::tell;
use clap::{Parser, Subcommand};

use commands::{Check, Explain, Explore, Merge, Recording, Sim, Trouble};
use help::{
    AFTER_CHECK, AFTER_COVERAGE, AFTER_ESTIMATE, AFTER_EXPLAIN, AFTER_EXPLORE, AFTER_MERGE, AFTER_MUTATE,
    AFTER_NEW, AFTER_RECORD, AFTER_REPLAY, AFTER_SIM, AFTER_VALIDATE, EXIT_CODES,
};
use options::{Effort, Forms, Gate, Part};

/// Exhaustive checker of the scheduler's protocol.
#[derive(Parser)]
#[command(name = "lockstep-check", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Manifest of runs [default: runs.toml of the package]
    #[arg(long, global = true, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Folder of CHECKS.md and proved.json [default: the workspace]
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Perform runs, and compare them with what they must find and with what is recorded
    #[command(after_help = AFTER_CHECK)]
    Check {
        /// Names of runs; all of the tier if there are none
        #[arg(value_name = "RUN")]
        names: Vec<String>,
        /// Tier up to which runs are performed
        #[arg(long, value_enum, default_value = "quick", conflicts_with = "names")]
        tier: Tier,
        #[command(flatten)]
        part: Part,
        #[command(flatten)]
        gate: Gate,
    },
    /// Show a counterexample, on the terminal or for another tool
    #[command(after_help = AFTER_EXPLAIN)]
    Explain {
        /// A trace file, or the name of a run, which is explored on the spot
        trace: String,
        /// How it is shown
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
        /// Show whole states instead of what changes
        #[arg(long)]
        full: bool,
        /// Write to a file [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        effort: Effort,
    },
    /// Step through a run or a counterexample in the browser
    #[command(after_help = AFTER_EXPLORE)]
    Explore {
        /// A trace file, or the name of a run; the page lists the runs if it is left out
        trace: Option<String>,
        /// Port of the page on 127.0.0.1 [default: any free one]
        #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
        port: u16,
        /// Write the counterexample as one HTML file that needs no server, and end
        #[arg(long, value_name = "FILE", conflicts_with = "port")]
        output: Option<PathBuf>,
        #[command(flatten)]
        effort: Effort,
    },
    /// Predict states, time and memory of a run from a look at its beginning
    #[command(after_help = AFTER_ESTIMATE)]
    Estimate {
        /// Name of the run
        #[arg(value_name = "RUN")]
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        effort: Effort,
    },
    /// Show which proof is the first to reach each outcome, change of phase, failure, fact and step
    #[command(after_help = AFTER_COVERAGE)]
    Coverage {
        /// Tier up to which proofs are performed
        #[arg(long, value_enum, default_value = "quick")]
        tier: Tier,
        /// Print one JSON object a point
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        effort: Effort,
    },
    /// List the runs
    List {
        /// Print one JSON object a run
        #[arg(long)]
        json: bool,
    },
    /// Merge certificates of several machines into one report, and fail if a run is missing
    #[command(after_help = AFTER_MERGE)]
    Merge {
        /// Certificates, and folders with certificates
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
        /// Runs that must be there, instead of those of the tier
        #[arg(long = "run", value_name = "RUN")]
        names: Vec<String>,
        /// Tier up to which every run must be there
        #[arg(long, value_enum, default_value = "quick", conflicts_with = "names")]
        tier: Tier,
        /// Print the merged certificates, one JSON object a run
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        forms: Forms,
    },
    /// Start a protocol of your own: write a crate that compiles, fails, and says what to change
    #[command(after_help = AFTER_NEW)]
    New {
        /// Name of the crate: lower-case letters, digits and hyphens
        name: String,
        /// Folder to write it into; NAME in the current one if left out
        #[arg(long, value_name = "DIR")]
        path: Option<PathBuf>,
    },
    /// Show what notices each fault put into the protocol
    #[command(after_help = AFTER_MUTATE)]
    Mutate {
        /// Tier up to which mutants are performed
        #[arg(long, value_enum, default_value = "quick")]
        tier: Tier,
        /// Print one JSON object a mutant
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        effort: Effort,
    },
    /// Take the steps of a trace file again on the model of this build
    #[command(after_help = AFTER_REPLAY)]
    Replay {
        /// The trace file
        trace: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Perform the runs of a tier and all that must fail; write runs.toml, levels.toml, CHECKS.md and proved.json
    #[command(after_help = AFTER_RECORD)]
    Record {
        /// Compare only, and exit with 21 on a difference
        #[arg(long)]
        check: bool,
        /// Tier up to which runs that must hold are performed; the others keep their record
        #[arg(long, value_enum, default_value = "quick")]
        tier: Tier,
        /// Print one JSON object a run, its certificate, and one with the files that were written or are stale
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        effort: Effort,
    },
    /// Walk at random through a run's model, for what is too large to be exhausted
    #[command(after_help = AFTER_SIM)]
    Sim {
        /// Name of the run
        #[arg(value_name = "RUN")]
        name: String,
        /// First seed
        #[arg(long, value_name = "S", default_value_t = 0)]
        seed: u64,
        /// Number of seeds
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
        seeds: u64,
        /// Steps of each seed
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        steps: u64,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        /// Write the counterexample that is met to a file, for `explain` and `replay`
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        #[command(flatten)]
        effort: Effort,
    },
    /// Tell whether the traces of a running deployment are behaviours of the model, and where they leave it
    #[command(after_help = AFTER_VALIDATE)]
    Validate {
        /// Traces of all ranks of a group, of any number of groups and epochs; or directories of traces
        #[arg(value_name = "TRACE", required = true)]
        traces: Vec<PathBuf>,
        /// Print one JSON object a group
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    /// Whether the exit code is a verdict, which a reader that goes away before the end must not turn into a pass.
    const fn judges(&self) -> bool {
        match self {
            Self::Check { .. }
            | Self::Merge { .. }
            | Self::Mutate { .. }
            | Self::Record { .. }
            | Self::Replay { .. }
            | Self::Sim { .. }
            | Self::Validate { .. } => true,
            Self::Coverage { .. }
            | Self::Estimate { .. }
            | Self::Explain { .. }
            | Self::Explore { .. }
            | Self::List { .. }
            | Self::New { .. } => false,
        }
    }
}

/// Does what the command line asks for.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let gone = if cli.command.judges() { Exit::Internal } else { Exit::Ok };
    let exit = match perform(cli) {
        Ok(exit) => exit,
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => gone,
        Err(trouble) => {
            tell(format_args!("lockstep-check: {trouble}"));
            trouble.exit()
        }
    };
    ExitCode::from(exit.code())
}

fn perform(cli: Cli) -> Result<Exit, Trouble> {
    let defaults = Places::default();
    let places = Places {
        manifest: cli.manifest.unwrap_or(defaults.manifest),
        root: cli.root.unwrap_or(defaults.root),
    };
    let registry = registry();
    match cli.command {
        Command::Check { names, tier, part, gate } => {
            commands::check(&registry, &places, &Check { names, tier, part, gate })
        }
        Command::Estimate { name, json, effort } => {
            commands::estimate(&registry, &places, (name, json, effort))
        }
        Command::Coverage { tier, json, effort } => commands::coverage(&registry, tier, json, &effort.into()),
        Command::Explain { trace, format, full, output, effort } => {
            commands::explain(&registry, &Explain { trace, format, full, output, effort })
        }
        Command::Explore { trace, port, output, effort } => {
            commands::explore(&registry, &Explore { trace, port, output, effort })
        }
        Command::List { json } => commands::list(&registry, json),
        Command::Merge { paths, names, tier, json, forms } => {
            commands::merge(&registry, &places, &Merge { paths, names, tier, json, forms })
        }
        Command::Mutate { tier, json, effort } => commands::mutate(&registry, tier, json, &effort.into()),
        Command::New { name, path } => commands::new(&name, path),
        Command::Replay { trace, json } => commands::replay(&registry, &trace, json),
        Command::Record { check, tier, json, effort } => {
            commands::record(&registry, &places, &Recording { check, tier, json, effort })
        }
        Command::Validate { traces, json } => commands::validate(&traces, json),
        Command::Sim { name, seed, seeds, steps, json, trace, effort } => {
            commands::sim(&registry, &Sim { name, seed, seeds, steps, json, trace, effort })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::CommandFactory;

    use super::*;

    /// The commands of a file of the workspace, with what the shell or the workflow fills in replaced.
    fn commands_of(path: &str) -> Vec<Vec<String>> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        let text = fs::read_to_string(path).unwrap().replace(">-\n", "").replace("\"$TIER\"", "nightly");
        let text = text.replace("${{ matrix.part }}", "1").replace("\n          ", " ");
        let command = |line: &str| {
            let (_, command) = line.split_once("lockstep-check ")?;
            let said = command.split(['#', '\'', '`']).next()?.split_whitespace();
            Some(std::iter::once("lockstep-check").chain(said).map(str::to_owned).collect())
        };
        let is_command = |line: &&str| line.contains("lockstep-check ") && !line.contains("cargo build");
        text.lines().filter(is_command).filter_map(command).collect()
    }

    #[test]
    fn options_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_written_in_files_are_understood() {
        let workflow = commands_of(".github/workflows/model-checking.yml");
        let told = commands_of("docs/ci.md");
        assert!(workflow.len() >= 2 && told.len() >= 6, "{workflow:?} {told:?}");
        for command in workflow.iter().chain(&told) {
            let parsed = Cli::try_parse_from(command).map(drop);
            assert!(parsed.is_ok(), "{}: {}", command.join(" "), parsed.unwrap_err());
        }
    }

    #[test]
    fn options_tell_every_exit_code() {
        let told = |line: &str| line.split_whitespace().next().and_then(|word| word.parse::<u8>().ok());
        let told: Vec<u8> = EXIT_CODES.lines().filter_map(told).collect();
        let all: Vec<u8> = (0..=u8::MAX).filter(|code| Exit::of_code(*code).is_some()).collect();
        assert_eq!(told, all);
    }
}
