//! The ranks of one epoch: which processes run, which have exited with words still to be read, and the watch over them.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::epoch_watch::EpochWatch;
use super::process::{Exit, is_stopped};
use crate::wire::RankName;
use lockstep_spec::ids::Epoch;

/// Longest wait for what a rank that has exited left in its connection: it says more than the exit.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A process that runs.
#[derive(Debug)]
struct Running {
    /// On this machine; none of a process that somebody else started, wherever.
    pid: Option<u32>,
    /// Notified once, it kills the process, or cuts it off.
    kill: Arc<Notify>,
    stopped_ticks: u32,
}

/// One epoch's ranks, from the first start to the last end.
#[derive(Debug)]
pub(crate) struct EpochRanks {
    /// Which epoch.
    pub(crate) epoch: Epoch,
    /// When it was begun.
    pub(crate) begun: Instant,
    /// Whether every rank has been ready.
    pub(crate) serves: bool,
    /// The watch over it.
    pub(crate) watch: EpochWatch,
    running: BTreeMap<RankName, Running>,
    exited: BTreeMap<RankName, (Exit, Instant)>,
}

impl EpochRanks {
    /// An epoch none of whose ranks is started; after a loss the others get `grace`.
    pub(crate) fn new(epoch: Epoch, grace: Duration) -> Self {
        Self {
            epoch,
            begun: Instant::now(),
            serves: false,
            watch: EpochWatch::new(grace),
            running: BTreeMap::new(),
            exited: BTreeMap::new(),
        }
    }

    /// The state before the first epoch, of which nothing is left.
    pub(crate) fn before(epoch: Epoch) -> Self {
        Self { watch: EpochWatch::over(), ..Self::new(epoch, Duration::ZERO) }
    }

    /// Notes a rank that has begun, its process on this machine, and what kills it when notified.
    pub(crate) fn started(&mut self, rank: RankName, pid: Option<u32>, kill: Arc<Notify>) {
        self.running.insert(rank, Running { pid, kill, stopped_ticks: 0 });
        self.watch.started(rank);
    }

    /// Kills those of `ranks` that run.
    pub(crate) fn kill(&self, ranks: &[RankName]) {
        ranks.iter().filter_map(|rank| self.running.get(rank)).for_each(|rank| rank.kill.notify_one());
    }

    /// Counts one tick and gives the ranks that have now been stopped for `limit` ticks without a break, and their process ids.
    pub(crate) fn stopped(&mut self, limit: u32) -> Vec<(RankName, u32)> {
        let stopped = |running: &mut Running| {
            let pid = running.pid?;
            running.stopped_ticks = if is_stopped(pid) { running.stopped_ticks.saturating_add(1) } else { 0 };
            (running.stopped_ticks >= limit).then_some(pid)
        };
        self.running.iter_mut().filter_map(|(name, running)| Some((*name, stopped(running)?))).collect()
    }

    /// Notes the end of a process, which counts once its words are heard.
    pub(crate) fn exited(&mut self, rank: RankName, exit: Exit) {
        self.running.remove(&rank);
        self.exited.insert(rank, (exit, Instant::now() + LAST_WORDS));
    }

    /// Takes out the exits whose connections are read to their end, as `unlinked` knows, or have had their time.
    pub(crate) fn settled(&mut self, unlinked: impl Fn(RankName) -> bool) -> Vec<(RankName, Exit)> {
        let now = Instant::now();
        let settled = |name: &RankName, (_, until): &mut (Exit, Instant)| now >= *until || unlinked(*name);
        self.exited.extract_if(.., settled).map(|(name, (exit, _))| (name, exit)).collect()
    }
}

/// The directory of an epoch's sockets, which goes with it: no socket of one epoch is met in the next.
#[derive(Debug)]
pub(crate) struct EpochDirectory(PathBuf);

impl EpochDirectory {
    /// Makes it in the run's directory, for this user only.
    ///
    /// # Errors
    /// The system's reason.
    pub(crate) fn create(run_directory: &Path, epoch: Epoch) -> io::Result<Self> {
        let path = run_directory.join(epoch.to_string());
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for EpochDirectory {
    fn drop(&mut self) {
        // What can not be removed now goes with the run's directory.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
