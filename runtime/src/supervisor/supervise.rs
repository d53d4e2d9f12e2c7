//! The supervisor's loop: one queue of events, one tick, one order to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::group_watch::{Action, GroupWatch};
use super::link::{self, LinkEnd, LinkReport};
use super::process::{Exit, RankProcess};
use super::say;
use super::stop::Stop;
use crate::frontend::Desk;
use crate::wire::{RankName, Role, WireError};

/// Time for a killed process to be gone.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// Longest wait for what a rank that has exited left in its connection: it says more than the exit.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Wait after a failed accept: the process is out of descriptors, and only time gives some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The supervisor's deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the processes until every rank is ready.
    pub start: Duration,
    /// From the loss of a group until its remaining ranks are killed.
    pub grace: Duration,
    /// From the order to leave until the remaining ranks are killed.
    pub leave: Duration,
    /// Longest silence of a ready rank.
    pub silence: Duration,
    /// The supervisor's tick.
    pub tick: Duration,
}

impl Limits {
    /// The silence in whole ticks.
    pub fn silence_ticks(&self) -> u32 {
        let ticks = self.silence.as_millis() / self.tick.as_millis().max(1);
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        let (start, grace, leave, silence) = (seconds(120), seconds(8), seconds(5), seconds(8));
        Self { start, grace, leave, silence, tick: Duration::from_millis(100) }
    }
}

/// One rank to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlan {
    /// Which rank.
    pub name: RankName,
    /// The arguments of its command line.
    pub arguments: Vec<OsString>,
}

/// What to start, and by which deadlines to watch it.
#[derive(Clone, Debug)]
pub struct SupervisorPlan {
    /// The executable of the rank processes.
    pub program: PathBuf,
    /// The ranks of both groups.
    pub ranks: Vec<RankPlan>,
    /// The deadlines.
    pub limits: Limits,
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
    /// The process ids of all ranks that ever ran; all have been waited for.
    pub pids: Vec<u32>,
    /// Ranks of whole groups that did not leave as asked, and how they ended.
    pub unclean: Vec<String>,
}

enum Event {
    Accepted(io::Result<UnixStream>),
    Exited(RankName, Exit),
    LinkEnded(LinkReport),
    Tick,
}

/// Starts and watches the ranks of both groups.
pub struct Supervisor {
    plan: SupervisorPlan,
    desk: Arc<Desk>,
    listener: UnixListener,
    ticker: Interval,
    tasks: JoinSet<()>,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    groups: BTreeMap<Role, GroupWatch>,
    running: BTreeMap<RankName, Arc<Notify>>,
    exited: BTreeMap<RankName, (Exit, Instant)>,
    leaving: bool,
    leaving_groups: BTreeSet<Role>,
    departure: Departure,
}

impl Supervisor {
    /// A supervisor that has started nothing yet; ranks are to connect to `listener`.
    pub fn new(plan: SupervisorPlan, desk: Arc<Desk>, listener: UnixListener) -> Self {
        let mut ticker = interval(plan.limits.tick.max(Duration::from_millis(1)));
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (sender, events) = mpsc::channel(4 * plan.ranks.len() + 16);
        let groups =
            [Role::Decode, Role::Prefill].map(|role| (role, GroupWatch::new(role, plan.limits.grace)));
        Self {
            plan,
            desk,
            listener,
            ticker,
            tasks: JoinSet::new(),
            sender,
            events,
            groups: groups.into(),
            running: BTreeMap::new(),
            exited: BTreeMap::new(),
            leaving: false,
            leaving_groups: BTreeSet::new(),
            departure: Departure::default(),
        }
    }

    /// Starts the ranks and watches them until `stop` says so; afterwards none is left. To be awaited on the main thread.
    ///
    /// # Errors
    /// [`SupervisorError`] when the ranks did not get ready, or did not go.
    pub async fn run(mut self, stop: watch::Receiver<Stop>) -> Result<Departure, SupervisorError> {
        let verdict = match self.start_all() {
            Ok(()) => self.watch(&stop).await,
            Err(error) => Err(error),
        };
        let ended = self.end_all(&stop).await;
        self.desk.end_streams();
        if verdict.is_ok() {
            self.report_unreported();
        }
        match verdict {
            Err(SupervisorError::StartFailed { .. }) => {
                Err(SupervisorError::StartFailed { findings: self.findings() })
            }
            verdict => verdict.and(ended).map(|()| self.departure),
        }
    }

    fn start_all(&mut self) -> Result<(), SupervisorError> {
        for rank in std::mem::take(&mut self.plan.ranks) {
            self.start(rank.name, &rank.arguments)
                .map_err(|source| SupervisorError::Spawn { rank: rank.name, source })?;
        }
        Ok(())
    }

    fn start(&mut self, name: RankName, arguments: &[OsString]) -> io::Result<()> {
        let process = RankProcess::start(name, &self.plan.program, arguments)?;
        self.desk.process_started(name, process.pid);
        self.departure.pids.push(process.pid);
        self.running.insert(name, Arc::clone(&process.kill));
        self.group(name.role).started(name.rank);
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let exit = process.run().await;
            // The queue is gone only together with this task.
            sender.send(Event::Exited(name, exit)).await.ok();
        });
        Ok(())
    }

    async fn watch(&mut self, stop: &watch::Receiver<Stop>) -> Result<(), SupervisorError> {
        let start = self.plan.limits.start;
        let deadline = Instant::now() + start;
        while *stop.borrow() == Stop::Run {
            let event = self.next_event().await;
            self.handle(event).await;
            let started = self.desk.has_started();
            if !started && self.groups.values().any(|group| !group.is_whole()) {
                return Err(SupervisorError::StartFailed { findings: Vec::new() });
            }
            if !started && Instant::now() >= deadline {
                return Err(SupervisorError::StartTimedOut { seconds: start.as_secs() });
            }
        }
        Ok(())
    }

    /// Asks all ranks to leave, and kills those that do not.
    async fn end_all(&mut self, stop: &watch::Receiver<Stop>) -> Result<(), SupervisorError> {
        self.leaving = true;
        self.leaving_groups =
            self.groups.iter().filter(|(_, group)| group.is_whole()).map(|(&role, _)| role).collect();
        self.desk.stop();
        let kill_at = Instant::now() + self.plan.limits.leave;
        let mut killed_at = None;
        while !self.running.is_empty() || !self.exited.is_empty() {
            let now = Instant::now();
            match killed_at {
                None if now >= kill_at || *stop.borrow() == Stop::Now => {
                    self.running.values().for_each(|kill| kill.notify_one());
                    killed_at = Some(now);
                }
                Some(killed_at) if now >= killed_at + KILL_DEADLINE => {
                    return Err(SupervisorError::Stuck {
                        ranks: self.running.keys().map(RankName::to_string).collect(),
                    });
                }
                None | Some(_) => {}
            }
            let event = self.next_event().await;
            self.handle(event).await;
        }
        Ok(())
    }

    /// Waits for the next event: a tick at the latest.
    async fn next_event(&mut self) -> Event {
        tokio::select! {
            Some(event) = self.events.recv() => event,
            accepted = self.listener.accept() => Event::Accepted(accepted.map(|(stream, _)| stream)),
            _ = self.ticker.tick() => Event::Tick,
        }
    }

    async fn handle(&mut self, event: Event) {
        match event {
            Event::Accepted(Ok(stream)) => self.serve_link(stream),
            Event::Accepted(Err(error)) => {
                say(&format!("lockstep: a control connection could not be accepted: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Event::Exited(name, exit) => self.exited(name, exit),
            Event::LinkEnded(report) => {
                self.link_ended(report);
                self.settle_exits();
            }
            Event::Tick => self.tick(),
        }
    }

    fn serve_link(&mut self, stream: UnixStream) {
        let (sender, desk) = (self.sender.clone(), Arc::clone(&self.desk));
        self.tasks.spawn(async move {
            let report = link::serve(desk, stream).await;
            // The queue is gone only together with this task.
            sender.send(Event::LinkEnded(report)).await.ok();
        });
    }

    fn exited(&mut self, name: RankName, exit: Exit) {
        self.running.remove(&name);
        self.exited.insert(name, (exit, Instant::now() + LAST_WORDS));
        self.settle_exits();
    }

    /// Takes the exits in whose connections are read to their end, or have had their time.
    fn settle_exits(&mut self) {
        let now = Instant::now();
        let settled = |name: &RankName, until: Instant| now >= until || self.desk.is_unlinked(*name);
        let exits: Vec<(RankName, Exit)> = self
            .exited
            .iter()
            .filter(|(name, (_, until))| settled(name, *until))
            .map(|(&name, &(exit, _))| (name, exit))
            .collect();
        for (name, exit) in exits {
            self.exited.remove(&name);
            self.desk.process_ended(name);
            self.group(name.role).exited(name.rank);
            if !self.leaving || !exit.is_clean() {
                self.found(name.role, format!("{name} {exit}"));
            }
        }
    }

    fn link_ended(&mut self, report: LinkReport) {
        match (report.rank, report.end) {
            (None, end) => say(&format!("lockstep: {end}")),
            (Some(name), LinkEnd::Fault(fault)) => {
                self.desk.link_ended(name);
                self.found(name.role, fault.to_string());
            }
            (Some(name), LinkEnd::Wire(WireError::Closed { .. })) => {
                self.desk.link_ended(name);
                self.group(name.role).unlinked(name.rank, Instant::now());
            }
            (Some(name), end @ (LinkEnd::Stranger(_) | LinkEnd::Unreachable(_) | LinkEnd::Wire(_))) => {
                self.desk.link_ended(name);
                self.found(name.role, end.to_string());
            }
        }
    }

    fn tick(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.settle_exits();
        if !self.leaving {
            for name in self.desk.tick() {
                let seconds = self.plan.limits.silence.as_secs_f32();
                self.found(name.role, format!("{name} has been silent for more than {seconds} s"));
            }
        }
        for role in [Role::Decode, Role::Prefill] {
            if let Some(action) = self.group(role).tick(Instant::now()) {
                self.perform(role, action);
            }
        }
    }

    /// Takes a finding to its group's watch, or to the departure where the group was whole until the order to leave.
    fn found(&mut self, role: Role, finding: String) {
        if self.leaving_groups.contains(&role) {
            return self.departure.unclean.push(finding);
        }
        if let Some(action) = self.group(role).found(finding, Instant::now()) {
            self.perform(role, action);
        }
    }

    fn perform(&mut self, role: Role, action: Action) {
        match action {
            Action::Kill(ranks) => {
                let kills = ranks.into_iter().filter_map(|rank| self.running.get(&RankName { role, rank }));
                kills.for_each(|kill| kill.notify_one());
            }
            Action::Lose(reason) => self.desk.lose(role, reason),
            Action::Report(findings) => {
                report(role, &findings);
                self.desk.lose(role, findings.join("; "));
            }
        }
    }

    /// Reports groups that were being lost when the order to stop came.
    fn report_unreported(&mut self) {
        for (&role, group) in &mut self.groups {
            if let Some(findings) = group.take_report() {
                report(role, &findings);
            }
        }
    }

    fn findings(&self) -> Vec<String> {
        self.groups.values().flat_map(|group| group.findings().iter().cloned()).collect()
    }

    fn group(&mut self, role: Role) -> &mut GroupWatch {
        let grace = self.plan.limits.grace;
        self.groups.entry(role).or_insert_with(|| GroupWatch::new(role, grace))
    }
}

fn report(role: Role, findings: &[String]) {
    say(&format!("lockstep: the {role} group is lost:\n  {}", findings.join("\n  ")));
}
