//! The program `lockstep-check`: performs runs, records what they find, and explains it.
//!
//! Exit codes are told by `--help`, from [`EXIT_CODES`].

mod browser;
mod chance;
mod checkpoint;
mod commands;
mod options;
mod outputs;
mod watch;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::explain::Format;
use crate::runs::{Exit, Places, Tier, registry};
use crate::screen::tell;
use clap::{Parser, Subcommand};

use commands::{Check, Explain, Explore, Merge, Sim, Trouble};
use options::{Effort, Forms, Kept, Outputs, Part};

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

const EXIT_CODES: &str = "\
Exit codes (of the first run that is not as it must be):
   0  everything is as expected
   2  the command line is wrong
  11  a rank is stuck
  12  a safety property is violated
  13  progress fails
  14  the model panics
  20  a run that holds proves nothing: a witness was not reached
  21  recorded counts, files or certificates are stale
  22  no verdict: a budget was spent, or a run is missing
  23  a run that must fail does not
  70  the checker itself is at fault, or a file cannot be read or written";

const AFTER_CHECK: &str = "\
Examples:
  lockstep-check check                              every quick run
  lockstep-check check RUN --show                   one run, with its counterexample
  lockstep-check check RUN --trace FILE             the same, as a file for `explain` and `replay`
  lockstep-check check --tier nightly --shard 2/5 --certificates out --junit out/junit.xml
  lockstep-check check --most-memory 4GiB --most-seconds 600
  lockstep-check check RUN --checkpoint run.checkpoint                        a run that may be stopped,
  lockstep-check check RUN --resume run.checkpoint --checkpoint run.checkpoint    and goes on

With GITHUB_ACTIONS=true, failures are annotated; a summary is added to the file GITHUB_STEP_SUMMARY names.
Exit codes: see `lockstep-check --help`.";

const AFTER_EXPLAIN: &str = "\
A trace file is written by `check RUN --trace FILE`, or by a protocol of yours with --save FILE. Exit code 23 if the run has
no counterexample, because it holds.

Examples:
  lockstep-check explain decode-mutant-loses-pages
  lockstep-check explain trace.json --format svg --output trace.svg";

const AFTER_MUTATE: &str = "\
Each row is a rule of the protocol that is broken on purpose, and the property that must notice. Exit code 23 if one is not
noticed.";

const AFTER_NEW: &str = "\
docs/guide.md goes from here to a proof in a quarter of an hour.

Example:
  lockstep-check new ready && cargo run --manifest-path ready/Cargo.toml";

const AFTER_RECORD: &str = "\
Review the changed counts like code: each is a change of what is proved. Nothing is written if a run is not as it must be;
then the exit code is that run's.";

const AFTER_REPLAY: &str = "\
Exit code 0 if the steps lead to the same violation, 21 if a step is not possible any more or leads elsewhere, 23 if all are
and another property is violated in the end, or none.

Example:
  lockstep-check check decode-mutant-loses-pages --trace trace.json && lockstep-check replay trace.json";

const AFTER_MERGE: &str = "\
Fails if a run of the tier has no certificate (22), if one comes from other sources, another manifest or another
schema (21), if two of one run say different things or one contradicts itself (70), or as the first run that is not
as it must be.

Example:
  lockstep-check merge out/ --tier nightly --junit junit.xml";

const AFTER_ESTIMATE: &str = "\
Looks at the beginning of a run, 5 seconds if no budget is given. A line through the growth of its levels says how much
is still to come; levels.toml has the levels of recorded runs, and so how wrong such lines were. The range is where four
in five of the recorded runs ended that once looked like this one, those of the same family first: measured over all of
them, each left out when it is its turn, ranges held four times in five, also where only smaller runs were asked, and
went to four times the least in the mean, to less the more of the run is seen. Time and memory are scaled, and only as good as that: memory by what states take at
the beginning, within a factor of two.

Exit code 22 if growth does not slow down yet or no recorded run looked like this, so that nothing can be said. With
--most-states, the states that are seen, and so the estimate of states, are the same on any machine.

Example:
  lockstep-check estimate decode-2x2-4p-transfers-normal --most-seconds 10";

const AFTER_EXPLORE: &str = "\
Prints the address of a page, and serves it to this machine alone until Ctrl-C. The address of each state is a link that
leads to the same state wherever the same build runs. The options of effort bound the search for a counterexample that
the page can start: 60 seconds if no budget is given.

Examples:
  lockstep-check explore conventional-local-admission-normal
  lockstep-check explore trace.json
  lockstep-check explore trace.json --output counterexample.html";

const AFTER_SIM: &str = "\
Each seed takes so many steps at random, none of them twice, or all that there are; the same seeds find the same on any
machine with any number of threads. Without a violation it says so and exits 0, which is no proof: only `check` proves.
A violation exits as in `check`; so does a run that must fail and does not here (23). A budget that is spent before all
seeds are done exits 22; budgets are looked at between seeds.

Example:
  lockstep-check sim decode-2x2-4p-transfers-normal --seeds 1000 --steps 100000";

const AFTER_VALIDATE: &str = "\
`lockstep serve --trace DIR` writes the traces (docs/rank-trace.md). A trace that is cut off, as when a process is killed, is judged as far
as it goes. Exit code 21 if a trace leaves the model; 2 if traces cannot be judged: damaged, of another build, or of some ranks only.

Example:
  lockstep-check validate DIR";

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
        /// Print one JSON object a run: its certificate (docs/certificate.schema.json), with the whole counterexample
        /// if it is unexpected
        #[arg(long)]
        json: bool,
        /// Show counterexamples that are expected, too
        #[arg(long)]
        show: bool,
        /// Write the counterexample of the run to a file, for `explain` and `replay`
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        #[command(flatten)]
        kept: Kept,
        #[command(flatten)]
        outputs: Outputs,
        #[command(flatten)]
        effort: Effort,
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
    /// Show which proof is the first to reach each outcome, change of phase, failure and fact
    Coverage {
        /// Tier up to which proofs are performed
        #[arg(long, value_enum, default_value = "quick")]
        tier: Tier,
        #[command(flatten)]
        effort: Effort,
    },
    /// List the runs
    List,
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
        #[command(flatten)]
        effort: Effort,
    },
    /// Take the steps of a trace file again on the model of this build
    #[command(after_help = AFTER_REPLAY)]
    Replay {
        /// The trace file
        trace: PathBuf,
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
            | Self::List
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
        Command::Check { names, tier, part, json, show, trace, kept, outputs, effort } => {
            let check = Check { names, tier, part, json, show, trace, kept, outputs, effort };
            commands::check(&registry, &places, &check)
        }
        Command::Estimate { name, json, effort } => {
            commands::estimate(&registry, &places, (name, json, effort))
        }
        Command::Coverage { tier, effort } => commands::coverage(&registry, tier, &effort.into()),
        Command::Explain { trace, format, full, output, effort } => {
            commands::explain(&registry, &Explain { trace, format, full, output, effort })
        }
        Command::Explore { trace, port, output, effort } => {
            commands::explore(&registry, &Explore { trace, port, output, effort })
        }
        Command::List => commands::list(&registry),
        Command::Merge { paths, names, tier, json, forms } => {
            commands::merge(&registry, &places, &Merge { paths, names, tier, json, forms })
        }
        Command::Mutate { tier, effort } => commands::mutate(&registry, tier, &effort.into()),
        Command::New { name, path } => commands::new(&name, path),
        Command::Replay { trace } => commands::replay(&registry, &trace),
        Command::Record { check: true, tier, effort } => commands::compare(&registry, &places, tier, &effort),
        Command::Record { check: false, tier, effort } => commands::record(&registry, &places, tier, &effort),
        Command::Validate { traces, json } => commands::validate(&traces, json),
        Command::Sim { name, seed, seeds, steps, json, effort } => {
            commands::sim(&registry, &Sim { name, seed, seeds, steps, json, effort })
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
