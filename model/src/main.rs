//! `lockstep-check`: performs runs and records what they find.
//!
//! Exit codes: 0 as expected; 2 usage; 11 stuck; 12 safety; 13 liveness; 14 assertion; 20 vacuous; 21 recorded counts
//! or files are stale; 22 given up; 23 an expected violation was not found; 70 internal. The first failing run's counts.
#![forbid(unsafe_code)]

mod commands;
mod screen;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use lockstep_model::explore::Settings;
use lockstep_model::runs::{Exit, Places, Tier, registry};

use commands::{Check, Trouble};

/// Exhaustive checker of the scheduler's protocol.
#[derive(Parser)]
#[command(name = "lockstep-check", version)]
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
    Check {
        /// Names of runs; all of the tier if there are none
        #[arg(value_name = "RUN")]
        names: Vec<String>,
        /// Tier up to which runs are performed
        #[arg(long, value_enum, default_value = "quick", conflicts_with = "names")]
        tier: Tier,
        /// Print one JSON object a run
        #[arg(long)]
        json: bool,
        /// Show counterexamples that are expected, too
        #[arg(long)]
        trace: bool,
        #[command(flatten)]
        effort: Effort,
    },
    /// List the runs
    List,
    /// Perform the runs of a tier and all that must fail; write runs.toml, CHECKS.md and proved.json
    Record {
        /// Compare only, and exit with 21 on a difference
        #[arg(long)]
        check: bool,
        /// Tier up to which runs that must hold are performed; the others keep their record
        #[arg(long, value_enum, default_value = "quick")]
        tier: Tier,
        #[command(flatten)]
        effort: Effort,
    },
}

#[derive(Args)]
struct Effort {
    /// Threads; 0 means one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Give a run up, without a verdict, after so many states
    #[arg(long, value_name = "N")]
    most_states: Option<u64>,
    /// Give a run up, without a verdict, after so many seconds
    #[arg(long, value_name = "N")]
    most_seconds: Option<u64>,
}

impl From<Effort> for Settings {
    fn from(effort: Effort) -> Self {
        let most_time = effort.most_seconds.map(Duration::from_secs);
        Self { threads: effort.threads, most_states: effort.most_states, most_time }
    }
}

fn main() -> ExitCode {
    let exit = match perform(Cli::parse()) {
        Ok(exit) => exit,
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(trouble) => {
            anstream::eprintln!("lockstep-check: {trouble}");
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
        Command::Check { names, tier, json, trace, effort } => {
            commands::check(&registry, &places, &Check { names, tier, json, trace, settings: effort.into() })
        }
        Command::List => commands::list(&registry),
        Command::Record { check: true, tier, effort } => {
            commands::compare(&registry, &places, tier, &effort.into())
        }
        Command::Record { check: false, tier, effort } => {
            commands::record(&registry, &places, tier, &effort.into())
        }
    }
}
