//! What a supervisor is told, and what it leaves to tell.

use std::io;
use std::time::Duration;

use thiserror::Error;

use super::muster::Muster;
use crate::wire::RankName;

/// The supervisor's deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the processes until every rank is ready.
    pub start: Duration,
    /// From the loss of a group until the epoch's remaining ranks are killed.
    pub grace: Duration,
    /// From the order to leave until the remaining ranks are killed.
    pub leave: Duration,
    /// Longest silence of a ready rank, and longest wait for a round of it that is due.
    pub silence: Duration,
    /// Longest wait for a round that is due before `/health` turns red.
    pub stall: Duration,
    /// How long a rank may be stopped. The kernel tells it, so it is never true of one that is merely slow, and can be short; long enough
    /// for a look with a debugger.
    pub stopped: Duration,
    /// The supervisor's tick.
    pub tick: Duration,
}

impl Limits {
    /// A deadline in whole ticks.
    pub fn ticks(&self, deadline: Duration) -> u32 {
        let ticks = deadline.as_millis() / self.tick.as_millis().max(1);
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        let (start, grace, leave, silence) = (seconds(120), seconds(1), seconds(5), seconds(8));
        let (stall, stopped, tick) = (seconds(4), seconds(2), Duration::from_millis(100));
        Self { start, grace, leave, silence, stall, stopped, tick }
    }
}

/// Whom to watch, and by which deadlines.
#[derive(Debug)]
pub struct SupervisorPlan {
    /// Where the ranks of both groups come from.
    pub muster: Muster,
    /// The deadlines.
    pub limits: Limits,
    /// Restarts that may follow losses within ten minutes; 0: a loss is for good.
    pub restarts: u32,
    /// Time that running requests get to end once a stop is asked for.
    pub drain: Duration,
}

/// Why the supervisor ended otherwise than asked.
#[derive(Debug, Error)]
pub enum SupervisorError {
    /// A process could not be started.
    #[error("{rank} could not be started: {source}")]
    Spawn {
        /// Which rank.
        rank: RankName,
        /// The system's reason.
        source: io::Error,
    },
    /// A rank ended, or said that it must, before all were ready.
    #[error("the ranks did not get ready:\n  {}", .findings.join("\n  "))]
    StartFailed {
        /// What was found, in the order of finding.
        findings: Vec<String>,
    },
    /// Not every rank was ready in time.
    #[error("the ranks were not ready within {seconds} s")]
    StartTimedOut {
        /// The deadline.
        seconds: u64,
    },
    /// Processes are there even after SIGKILL.
    #[error("killed, but still there: {}", .ranks.join(", "))]
    Stuck {
        /// Which.
        ranks: Vec<String>,
    },
}

/// What an orderly stop left to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// The process ids of all ranks that were ever started here; all have been waited for.
    pub pids: Vec<u32>,
    /// Ranks of a serving epoch that did not leave as asked, and how they ended.
    pub unclean: Vec<String>,
}
