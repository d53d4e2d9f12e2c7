//! What the subcommands do, one file a subcommand.

mod check;
mod coverage;
mod estimate;
mod explain;
mod explore;
mod gate;
mod list;
mod merge;
mod mutate;
mod new;
mod record;
mod replay;
mod side_by_side;
mod sim;
mod validate;

pub(crate) use check::{Check, check};
pub(crate) use coverage::coverage;
use coverage::covered;
pub(crate) use estimate::estimate;
pub(crate) use explain::{Explain, explain, explored};
pub(crate) use explore::{Explore, explore};
pub(crate) use gate::Subjects;
pub(crate) use list::list;
pub(crate) use merge::{Merge, merge};
pub(crate) use mutate::mutate;
pub(crate) use new::new;
pub(crate) use record::{Recording, record};
pub(crate) use replay::replay;
pub(crate) use sim::{Sim, sim};
pub(crate) use validate::validate;

use std::io;
use std::path::PathBuf;
use std::thread;

use crate::ci::ShardError;
use crate::explore::{Keeper, Settings};
use crate::runs::{Exit, Failure, Manifest, ManifestError, Performed, RecordError, Recorded, Run};
use thiserror::Error;

use crate::cli::checkpoint::{CheckpointError, Checkpoints};
use crate::cli::files::TargetError;
use crate::cli::watch::{Display, MemoryLimit, Stop, Watch};
use crate::screen::Screen;
use side_by_side::side_by_side;

/// States of the longest run that is performed beside others.
const SHORT: u64 = 1_000_000;

/// What keeps a command from being performed.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    /// The request or the registry is wrong.
    #[error("{}", .0.text)]
    Failure(Failure),
    /// The manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A file is no certificate.
    #[error("{path} is no certificate of a run; remove it, or perform the run again: {source}")]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A crate cannot be written.
    #[error(transparent)]
    New(#[from] new::NewError),
    /// The terminal or file behind the output is gone.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A recorded file cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The part of the runs that this machine makes cannot be told.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A certificate cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A file cannot be written where it was asked for.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Traces of a running group cannot be judged.
    #[error(transparent)]
    Traces(#[from] crate::validate::LogError),
    /// What runs leave behind cannot be written.
    #[error("cannot write {path}: {source}")]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}

impl Trouble {
    /// The exit code it asks for.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Checkpoint(error) => error.exit(),
            Self::Failure(failure) => failure.exit,
            Self::New(error) => error.exit(),
            Self::Shard(_) | Self::Target(_) | Self::Traces(_) => Exit::Usage,
            Self::Manifest(error) => error.exit(),
            Self::NoCertificate { .. }
            | Self::Output(_)
            | Self::Record(_)
            | Self::Unreadable { .. }
            | Self::Unwritable { .. } => Exit::Internal,
        }
    }
}

/// How runs are performed and shown.
struct Session<'a> {
    settings: Settings<'static>,
    memory: Option<MemoryLimit>,
    /// What is recorded of the runs, for whoever looks on.
    recorded: Option<&'a Manifest>,
    /// What the runs are compared with.
    judged: Option<Recorded<'a>>,
    display: Display,
    screen: Screen<'a>,
    /// Where the only run is kept.
    kept: Option<Checkpoints>,
    stop: Stop,
}

impl Session<'_> {
    /// States that are recorded of a run.
    fn known(&self, run: &Run) -> Option<u64> {
        self.recorded.and_then(|manifest| manifest.find(run.name)).map(|record| record.unique)
    }

    /// Whether a run is so short that all threads at once gain less than other runs beside it.
    fn is_short(&self, run: &Run) -> bool {
        self.known(run).is_some_and(|states| states < SHORT)
    }

    fn threads(&self) -> usize {
        match self.settings.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    fn perform<'a>(&self, run: &'a Run, threads: usize, display: Display) -> Performed<'a> {
        let watch = Watch::new(run.name, self.known(run), self.memory.clone(), display);
        let watch = watch.until(self.stop.clone());
        let keeper = self.kept.as_ref().map(|kept| kept as &dyn Keeper);
        let settings = Settings { threads, observer: Some(&watch), keeper, ..self.settings };
        let performed = Performed::new(run, &settings, self.judged);
        watch.clear();
        performed
    }
}

/// Performs runs until somebody asks for an end, shows each once those before it are done, and hands it to `each`. Short ones go side by side
/// and share the threads; the others go one after another, on all of them.
fn perform<'a>(
    runs: &[&'a Run],
    session: &Session<'_>,
    each: &mut dyn FnMut(&Performed<'a>) -> Result<(), Trouble>,
) -> Result<Vec<Performed<'a>>, Trouble> {
    let (mut all, threads) = (Vec::new(), session.threads());
    let mut take = |performed: Performed<'a>| {
        session.screen.show(&performed, session.recorded)?;
        each(&performed)?;
        all.push(performed);
        Ok::<_, Trouble>(())
    };
    let ended = || session.stop.is_asked();
    for part in runs.chunk_by(|one, next| session.is_short(one) && session.is_short(next)) {
        let (beside, display) = match part {
            [_] => (1, session.display),
            [] | [_, _, ..] => (threads.min(part.len()), session.display.of_several()),
        };
        let work = |run: &&'a Run| session.perform(run, threads / beside, display);
        side_by_side(part, beside, &ended, &work, &mut take)?;
    }
    session.screen.sum_up(&all)?;
    Ok(all)
}

fn first_failure(performed: &[Performed<'_>]) -> Option<Failure> {
    performed.iter().find_map(|performed| performed.failure.clone())
}
