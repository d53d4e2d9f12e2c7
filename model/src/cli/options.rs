//! Options that several commands share.

use std::path::PathBuf;

use crate::ci::Asked;
use crate::explore::Settings;
use crate::runs::{self, Exit, Failure};
use clap::Args;

use crate::cli::checkpoint::Span;
use crate::cli::commands::Trouble;
use crate::cli::watch::{Bytes, Machine, MemoryLimit};

/// How much a run may cost. A run that would cost more is given up: no verdict, exit code 22.
#[derive(Args, Clone, Copy)]
// Its group would have the name of the group that it holds.
#[group(skip)]
pub(crate) struct Effort {
    #[command(flatten)]
    pub(crate) bounds: runs::Effort,
    /// Give a run up, without a verdict, before the process has so much memory, such as 512M or 8GiB
    /// [default: 15/16 of the machine's, control group's or address space's (ulimit -v); 1/32 always stays free]
    #[arg(long, value_name = "SIZE", help_heading = "Effort")]
    pub(crate) most_memory: Option<Bytes>,
}

impl From<Effort> for Settings<'static> {
    fn from(effort: Effort) -> Self {
        effort.bounds.into()
    }
}

impl Effort {
    /// The limit of memory; none where the machine does not tell its memory and nobody asks for one.
    pub(crate) fn memory_limit(&self) -> Result<Option<MemoryLimit>, Trouble> {
        let limit = MemoryLimit::new(Machine::default(), self.most_memory);
        if self.most_memory.is_some() && limit.is_none() {
            let text = "this machine does not tell its memory (/proc), so --most-memory cannot be kept; leave it out";
            return Err(Trouble::Failure(Failure::new(Exit::Usage, text)));
        }
        Ok(limit)
    }
}

/// Which part of the runs this machine makes.
#[derive(Args, Clone, Copy)]
pub(crate) struct Part {
    /// Make only part K of N of the runs, dealt by recorded states so that all take equally long: K/N, auto/N, or auto,
    /// which reads SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or JOB_COMPLETION_INDEX
    #[arg(long, value_name = "K/N")]
    pub(crate) shard: Option<Asked>,
}

/// How a long run is kept and goes on. It is looked at between blocks of the frontier, not while progress is judged at the end.
#[derive(Args, Clone)]
pub(crate) struct Kept {
    /// Write the search of the only RUN to FILE: at intervals, when a budget is spent, and on Ctrl-C or SIGTERM
    #[arg(long, value_name = "FILE", help_heading = "Checkpoints")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Time between two checkpoints, such as 90s, 5m or 1h
    #[arg(
        long,
        value_name = "SPAN",
        default_value = "5m",
        requires = "checkpoint",
        help_heading = "Checkpoints"
    )]
    pub(crate) checkpoint_every: Span,
    /// Go on from the checkpoint in FILE; the verdict, the counts and the counterexample are those of a run in one piece
    #[arg(long, value_name = "FILE", help_heading = "Checkpoints")]
    pub(crate) resume: Option<PathBuf>,
}

/// How runs are gone through one after another, and what they leave behind.
#[derive(Args, Clone)]
pub(crate) struct Gate {
    /// Print one JSON object a run: its certificate (docs/certificate.schema.json), with the whole counterexample
    /// if it is unexpected
    #[arg(long)]
    pub(crate) json: bool,
    /// Show counterexamples that are expected, too
    #[arg(long)]
    pub(crate) show: bool,
    /// Write the counterexample of the only RUN to FILE; `lockstep-check explain FILE` draws it, for other tools with --format
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kept: Kept,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
    #[command(flatten)]
    pub(crate) effort: Effort,
}

/// Files for other tools.
#[derive(Args, Clone, Default)]
pub(crate) struct Forms {
    /// Write a JUnit XML file: a test case for each run
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) junit: Option<PathBuf>,
    /// Write a SARIF 2.1.0 file: a result for each run that is not as it must be, with its counterexample
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) sarif: Option<PathBuf>,
}

/// What runs leave behind.
#[derive(Args, Clone, Default)]
pub(crate) struct Outputs {
    /// Write the certificate of each run to DIR/RUN.json as soon as it is done
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) certificates: Option<PathBuf>,
    /// For each run that is not as it must be, write its certificate and its drawn counterexample to DIR
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) artifacts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) forms: Forms,
}
