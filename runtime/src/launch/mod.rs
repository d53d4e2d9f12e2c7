//! The command line and what it starts.
//!
//! ```text
//!   cli ─▶ serve ─▶ deployment (port, run directory, desk, server, supervisor) ─▶ rank processes
//!      ├─▶ prefill, decode ─▶ the same with one group, and a way to the other one's
//!      ├─▶ doctor ─▶ the same questions that serve asks, and nothing started
//!      ├─▶ demo  ─▶ deployment on a free port, a client, an end
//!      ├─▶ child (hidden; started by the supervisor) ─▶ Parts::rank
//!      └─▶ rank (started by a launcher) ─▶ launcher (which rank) ─▶ enlist (which epoch) ─▶ Parts::enlisted
//! ```
//! Reading order: `cli`, `placement` (what computes) with `wishes`, `rank_arguments` (the whole interface to a child besides the wire), `model`,
//! `deployment`, `way`, `launcher`, `enlist`.

mod cli;
mod deployment;
mod doctor;
mod enlist;
mod error;
mod launcher;
mod model;
mod placement;
mod rank_arguments;
mod serve;
mod way;
mod wishes;

pub use cli::GroupFlags;
pub(crate) use deployment::classes;
pub use deployment::{Control, Deployment, Endpoint, Side};
pub use enlist::{Enlisted, START_ANEW, Stand};
pub use error::LaunchError;
pub use model::{Model, ModelError};
pub use placement::{DeviceFlags, DeviceKind, Placement, PlacementError, RankDevice};
pub(crate) use rank_arguments::EVIDENCE;
pub use rank_arguments::{Mode, RankArguments, RankPlan};
pub(crate) use serve::{check, on_runtime};
pub use wishes::{CollectivesWish, GraphsWish};

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use crate::frontend::{TextCodec, TextError};
use crate::proved::Class;
use crate::supervisor::{self, Limits};
use cli::{Cli, Command};

/// What the program is put together from, besides this crate's own.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Runs a rank until its end, in a process that is its own and tied to the front end's life.
    pub rank: fn(RankArguments) -> ExitCode,
    /// Runs a rank of a launcher until its end.
    pub enlisted: fn(Enlisted) -> ExitCode,
    /// Loads the tokenizer of the model in a directory.
    pub codec: fn(&Path) -> Result<Arc<dyn TextCodec>, TextError>,
    /// Says what is proved of a class.
    pub statement: fn(&Class) -> String,
    /// The supervisor's deadlines.
    pub limits: Limits,
}

/// Runs the program as its command line says: exit code 2 for a wrong command line, 1 for every other failure.
pub fn run(parts: &Parts) -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Decode(flags) => serve::run_apart(&flags.front, Side::Decode(flags.prefill), parts),
        Command::Demo(flags) => crate::demo::run(&flags, parts),
        Command::Prefill(flags) => serve::run_apart(&flags, Side::Prefill, parts),
        Command::Child(arguments) => return child(arguments, parts),
        Command::Doctor(flags) => doctor::run(&flags, parts),
        Command::Rank(flags) => return enlist::run(&flags, parts),
        Command::Serve(flags) => serve::run(&flags, parts),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            supervisor::say(&format!("lockstep: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn child(arguments: RankArguments, parts: &Parts) -> ExitCode {
    match supervisor::die_with(arguments.front) {
        Ok(()) => (parts.rank)(arguments),
        Err(error) => {
            supervisor::say(&format!("lockstep child: {error}"));
            ExitCode::FAILURE
        }
    }
}
