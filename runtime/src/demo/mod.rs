//! `lockstep demo`: the main job once, seen from outside, and then nothing left.
//!
//! ```text
//!   what is proved ─▶ deployment on a free port ─▶ four streams at once, one closed midway ─▶ all drained
//!                  ─▶ what agreement cost ─▶ stop ─▶ every rank process is gone
//! ```
//! Reading order: here, `client` (HTTP), `listen` (one prompt's stream), `report` (the numbers).

mod client;
mod listen;
mod report;

pub use client::ClientError;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::frontend::{Desk, Standing};
use crate::launch::{self, Deployment, Endpoint, GroupFlags, LaunchError, Parts, Side, on_runtime};
use crate::supervisor::{Departure, Stop, on_signals, tell};
use crate::wire::{Progress, RankName};
use listen::{Heard, Listener};

/// The prompts, and after how many tokens the client of one closes its connection.
const PROMPTS: [(&str, Option<usize>); 4] = [
    ("In the beginning", None),
    ("And the LORD said unto Moses", None),
    ("Blessed are the", Some(12)),
    ("The wisdom of", None),
];

/// Longest wait for the groups to be empty once all clients are served or gone.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);

/// Why the demonstration failed.
#[derive(Debug, Error)]
pub enum DemoError {
    /// A request was not answered as it must be.
    #[error("prompt {number} ({prompt:?}): {source}")]
    Stream {
        /// The prompt's number.
        number: usize,
        /// The prompt.
        prompt: &'static str,
        /// What went wrong.
        source: ClientError,
    },
    /// The groups were not empty in time after the last request.
    #[error("slots or pages were still taken {} s after the last request", DRAIN_DEADLINE.as_secs())]
    NotDrained,
    /// The groups ended, or a signal came, before all was shown.
    #[error("it was interrupted")]
    Interrupted,
    /// A task of the demonstration did not come to its end.
    #[error("a client's task broke off: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// A rank did not work, or tell what it did.
    #[error("{0} told no forward and no vote")]
    NoProgress(RankName),
    /// Processes are left.
    #[error("rank processes are left running: {0:?}")]
    LeftRunning(Vec<u32>),
}

/// Runs the demonstration.
pub(crate) fn run(flags: &GroupFlags, parts: &Parts) -> Result<(), LaunchError> {
    on_runtime(demonstrate(flags, parts))
}

async fn demonstrate(flags: &GroupFlags, parts: &Parts) -> Result<(), LaunchError> {
    let (order, stop) = watch::channel(Stop::Run);
    let signals = on_signals(order.clone()).map_err(LaunchError::system("taking over the signals"))?;
    let endpoint = Endpoint {
        host: "127.0.0.1".into(),
        port: 0,
        max_queue: 16,
        restarts: 0,
        drain: Duration::ZERO,
        control: None,
        side: Side::Both,
    };
    let deployment = Deployment::open(&endpoint, flags, parts).await?;
    let run_directory = deployment.run_directory().to_owned();
    deployment.placement.iter().for_each(|placement| tell(&placement.to_string()));
    introduce(flags, parts);

    let show = show(deployment.address, Arc::clone(&deployment.desk));
    let (shown, departure) = tokio::select! {
        both = alongside(deployment, stop, show, order) => both,
        never = signals => match never {},
    };
    let departure = departure?;
    shown?;
    let pids = departure.pids.clone();
    launch::check(departure)?;
    confirm_gone(&pids)?;
    tell(&format!(
        "nothing is left running: {} rank processes ended, {} is removed",
        pids.len(),
        run_directory.display()
    ));
    Ok(())
}

fn introduce(flags: &GroupFlags, parts: &Parts) {
    for class in launch::classes(flags) {
        tell((parts.statement)(&class).trim_end());
    }
}

type Ended = Result<Departure, LaunchError>;

/// Serves while `show` goes on, and stops after it; groups that end before it interrupt it.
async fn alongside(
    deployment: Deployment,
    stop: watch::Receiver<Stop>,
    show: impl Future<Output = Result<(), DemoError>>,
    order: watch::Sender<Stop>,
) -> (Result<(), DemoError>, Ended) {
    let serving = deployment.run(stop);
    tokio::pin!(serving);
    let shown = tokio::select! {
        ended = serving.as_mut() => return (Err(DemoError::Interrupted), ended.map_err(LaunchError::from)),
        shown = show => shown,
    };
    order.send_replace(Stop::Leave);
    (shown, serving.await.map_err(LaunchError::from))
}

async fn show(address: SocketAddr, desk: Arc<Desk>) -> Result<(), DemoError> {
    let started = Instant::now();
    let mut standing = desk.standing();
    // Without a deadline of its own: the supervisor ends the run when the ranks do not get ready.
    standing
        .wait_for(|standing| *standing != Standing::Starting)
        .await
        .map_err(|_| DemoError::Interrupted)?;
    tell(&format!(
        "ready on http://{address} after {:.1} s; four prompts at once, one client leaves midway:",
        started.elapsed().as_secs_f32()
    ));
    let heard = stream_all(address).await?;
    wait_until_drained(&desk).await?;
    report::print(&heard, &desk.progress())
}

async fn stream_all(address: SocketAddr) -> Result<Vec<Heard>, DemoError> {
    let mut streams = JoinSet::new();
    for (place, (prompt, leaves_after)) in PROMPTS.into_iter().enumerate() {
        let listener = Listener { address, number: place + 1, prompt, leaves_after };
        streams.spawn(listener.listen());
    }
    let mut heard = Vec::new();
    while let Some(stream) = streams.join_next().await {
        heard.push(stream??);
    }
    Ok(heard)
}

/// Waits until every rank tells, after the last client is served, that no slot and no page is taken: the client that left holds nothing either.
async fn wait_until_drained(desk: &Desk) -> Result<(), DemoError> {
    let deadline = Instant::now() + DRAIN_DEADLINE;
    let before = desk.progress();
    while Instant::now() < deadline {
        let told_since = |(rank, progress): (&RankName, &Progress)| {
            before.get(rank).is_none_or(|earlier| progress.round > earlier.round)
        };
        if desk.is_drained() && desk.progress().iter().all(told_since) {
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Err(DemoError::NotDrained)
}

fn confirm_gone(pids: &[u32]) -> Result<(), DemoError> {
    let left: Vec<u32> = pids.iter().copied().filter(|&pid| is_there(pid)).collect();
    if left.is_empty() { Ok(()) } else { Err(DemoError::LeftRunning(left)) }
}

fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}
