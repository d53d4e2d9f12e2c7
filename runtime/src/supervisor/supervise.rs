//! The supervisor's loop: one queue of events, one tick, one order to stop.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::epoch::{EpochDirectory, EpochRanks};
use super::epoch_watch::Action;
use super::link::{self, LinkEnd, LinkReport};
use super::plan::{Departure, SupervisorError, SupervisorPlan};
use super::process::{Exit, RankProcess};
use super::restarts::Restarts;
use super::say;
use super::stop::Stop;
use crate::frontend::Desk;
use crate::launch::RankArguments;
use crate::wire::{RankName, Role, WireError};

/// Wait after a failed accept: the process is out of descriptors, and only time gives some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

enum Event {
    Accepted(io::Result<UnixStream>),
    Exited(RankName, Exit),
    LinkEnded(LinkReport),
    Tick,
}

/// An epoch that is to follow the one that was lost.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    lost_at: Instant,
    begin_at: Instant,
}

/// Starts and watches the ranks of both groups, epoch after epoch.
pub struct Supervisor {
    plan: SupervisorPlan,
    desk: Arc<Desk>,
    listener: UnixListener,
    ticker: Interval,
    tasks: JoinSet<()>,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    ranks: EpochRanks,
    directory: Option<EpochDirectory>,
    restarts: Restarts,
    recovery: Option<Recovery>,
    has_served: bool,
    leaving: bool,
    departure: Departure,
}

impl Supervisor {
    /// A supervisor that has started nothing yet; ranks are to connect to `listener`.
    pub fn new(plan: SupervisorPlan, desk: Arc<Desk>, listener: UnixListener) -> Self {
        let mut ticker = interval(plan.limits.tick.max(Duration::from_millis(1)));
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (sender, events) = mpsc::channel(4 * plan.ranks.len() + 16);
        Self {
            ranks: EpochRanks::new(desk.begin_epoch(), plan.limits.grace),
            restarts: Restarts::new(plan.restarts),
            plan,
            desk,
            listener,
            ticker,
            tasks: JoinSet::new(),
            sender,
            events,
            directory: None,
            recovery: None,
            has_served: false,
            leaving: false,
            departure: Departure::default(),
        }
    }

    /// Starts the ranks and watches them until `stop` says so, starting them anew when a group is lost; afterwards none is left. To be
    /// awaited on the main thread.
    ///
    /// # Errors
    /// [`SupervisorError`] when the ranks of the first epoch did not get ready, or did not go.
    pub async fn run(mut self, stop: watch::Receiver<Stop>) -> Result<Departure, SupervisorError> {
        let verdict = match self.begin() {
            Ok(()) => self.watch(&stop).await,
            Err(error) => Err(error),
        };
        if verdict.is_ok() {
            self.drain(&stop).await;
        }
        let left = self.leave(&stop).await;
        self.desk.end_streams();
        match verdict {
            Err(SupervisorError::StartFailed { .. }) => {
                Err(SupervisorError::StartFailed { findings: self.ranks.watch.findings().to_vec() })
            }
            verdict => verdict.and(left).map(|()| self.departure),
        }
    }

    /// Begins an epoch: nothing of the one before is left, and its sockets go with its directory.
    fn begin(&mut self) -> Result<(), SupervisorError> {
        let epoch = self.desk.begin_epoch();
        self.ranks = EpochRanks::new(epoch, self.plan.limits.grace);
        self.directory = None;
        for arguments in self.plan.ranks.clone() {
            let rank = arguments.name();
            self.start(arguments).map_err(|source| SupervisorError::Spawn { rank, source })?;
        }
        Ok(())
    }

    fn start(&mut self, arguments: RankArguments) -> io::Result<()> {
        let (name, epoch) = (arguments.name(), self.ranks.epoch);
        let directory = match &mut self.directory {
            Some(directory) => directory,
            none => none.insert(EpochDirectory::create(&self.plan.run_directory, epoch)?),
        };
        let arguments = arguments.of_epoch(epoch, directory.path());
        let process = RankProcess::start(name, &self.plan.program, &arguments.command_line())?;
        self.desk.process_started(name, process.pid);
        self.departure.pids.push(process.pid);
        self.ranks.started(name, process.pid, Arc::clone(&process.kill));
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let exit = process.run().await;
            // The queue is gone only together with this task.
            sender.send(Event::Exited(name, exit)).await.ok();
        });
        Ok(())
    }

    async fn watch(&mut self, stop: &watch::Receiver<Stop>) -> Result<(), SupervisorError> {
        while *stop.borrow() == Stop::Run {
            let event = self.next_event().await;
            self.handle(event).await;
            self.check_start()?;
            self.recover();
        }
        Ok(())
    }

    /// Notes once that every rank of the epoch has been ready. Comes before what has happened since is judged.
    fn note_ready(&mut self) {
        if self.ranks.serves || !self.ranks.watch.is_whole() || self.desk.unready().is_some() {
            return;
        }
        self.ranks.serves = true;
        self.has_served = true;
        if let Some(recovery) = self.recovery.take() {
            let seconds = recovery.lost_at.elapsed().as_secs_f32();
            say(&format!("lockstep: epoch {} serves, {seconds:.1} s after the loss", self.ranks.epoch.0));
        }
    }

    /// Notes that the epoch can not serve any more before it did: an error in the first one, a loss in others.
    fn check_start(&mut self) -> Result<(), SupervisorError> {
        let start = self.plan.limits.start;
        let late = Instant::now() >= self.ranks.begun + start;
        match (self.ranks.watch.is_whole(), self.desk.unready()) {
            (false, _) if !self.has_served => Err(SupervisorError::StartFailed { findings: Vec::new() }),
            (true, Some(_)) if late && !self.has_served => {
                Err(SupervisorError::StartTimedOut { seconds: start.as_secs() })
            }
            (true, Some(rank)) if late => {
                self.found(rank.role, format!("{rank} was not ready within {} s", start.as_secs()));
                Ok(())
            }
            (true, Some(_) | None) | (false, _) => Ok(()),
        }
    }

    /// Begins the epoch that is to follow, once nothing is left of the one that was lost.
    fn recover(&mut self) {
        let due = |recovery: Recovery| Instant::now() >= recovery.begin_at;
        if !self.ranks.watch.is_gone() || !self.recovery.is_some_and(due) {
            return;
        }
        if let Err(error) = self.begin() {
            let role = self.desk.unready().map_or(Role::Decode, |rank| rank.role);
            self.found(role, error.to_string());
        }
    }

    /// Takes no more requests, and gives those that were taken time to end. Under a pause none would; a loss is not recovered from now.
    async fn drain(&mut self, stop: &watch::Receiver<Stop>) {
        self.note_ready();
        self.leaving = true;
        self.desk.refuse();
        let until = Instant::now() + self.plan.drain;
        let whole = |ranks: &EpochRanks| ranks.serves && ranks.watch.is_whole();
        while whole(&self.ranks)
            && self.desk.is_working()
            && *stop.borrow() < Stop::Now
            && Instant::now() < until
        {
            let event = self.next_event().await;
            self.handle(event).await;
        }
    }

    /// Asks all ranks to leave, and kills those that do not. Ranks that do not serve hold nothing that is worth a wait.
    async fn leave(&mut self, stop: &watch::Receiver<Stop>) -> Result<(), SupervisorError> {
        self.note_ready();
        let orderly = self.ranks.serves && self.ranks.watch.is_whole();
        let patience = if orderly { self.plan.limits.leave } else { self.plan.limits.grace };
        self.leaving = true;
        self.desk.stop();
        self.ranks.watch.leave_by(Instant::now() + patience);
        while !self.ranks.watch.is_gone() {
            if *stop.borrow() == Stop::Now {
                self.ranks.watch.leave_by(Instant::now());
            }
            if let Some(ranks) = self.ranks.watch.stuck() {
                return Err(SupervisorError::Stuck { ranks });
            }
            let event = self.next_event().await;
            self.handle(event).await;
        }
        if orderly {
            self.departure.unclean = self.ranks.watch.findings().to_vec();
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
        self.note_ready();
        match event {
            Event::Accepted(Ok(stream)) => self.serve_link(stream),
            Event::Accepted(Err(error)) => {
                say(&format!("lockstep: a control connection could not be accepted: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Event::Exited(name, exit) => self.ranks.exited(name, exit),
            Event::LinkEnded(report) => self.link_ended(report),
            Event::Tick => self.tick(),
        }
        self.settle_exits();
        if let Some(action) = self.ranks.watch.tick(Instant::now()) {
            self.perform(action);
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

    fn settle_exits(&mut self) {
        let desk = Arc::clone(&self.desk);
        for (name, exit) in self.ranks.settled(|rank| desk.is_unlinked(rank)) {
            self.desk.process_ended(name);
            let asked = !self.ranks.watch.is_whole();
            self.ranks.watch.exited(name);
            if !(asked && exit.is_clean()) {
                self.found(name.role, format!("{name} {exit}"));
            }
        }
    }

    fn link_ended(&mut self, LinkReport { seat, end }: LinkReport) {
        let Some(seat) = seat else {
            return say(&format!("lockstep: {end}"));
        };
        self.desk.link_ended(seat);
        let name = seat.name;
        match end {
            // Its epoch is over, and what came of it is known.
            _ if seat.epoch != self.ranks.epoch => {}
            LinkEnd::Wire(WireError::Closed { .. }) => self.ranks.watch.unlinked(name, Instant::now()),
            LinkEnd::Fault(_) | LinkEnd::Stranger(_) | LinkEnd::Unreachable(_) | LinkEnd::Wire(_) => {
                self.found(name.role, end.to_string());
            }
        }
    }

    fn tick(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        if self.ranks.watch.is_whole() {
            for (name, finding) in self.desk.tick() {
                self.found(name.role, finding);
            }
            self.tick_stopped();
        }
    }

    /// A rank that is stopped does not end by itself, and its peers learn the most from its death.
    fn tick_stopped(&mut self) {
        let limits = self.plan.limits;
        for (name, pid) in self.ranks.stopped(limits.ticks(limits.stopped)) {
            let seconds = limits.stopped.as_secs_f32();
            self.found(
                name.role,
                format!("{name} (pid {pid}) has been stopped by a signal for {seconds} s and is killed"),
            );
            self.ranks.kill(&[name]);
        }
    }

    fn found(&mut self, role: Role, finding: String) {
        if let Some(action) = self.ranks.watch.found(role, finding, Instant::now()) {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::End(role, reason) => self.end(role, reason),
            Action::Gone => self.gone(),
            Action::Kill(ranks) => self.ranks.kill(&ranks),
            Action::Stuck(ranks) => self.stuck(&ranks),
        }
    }

    /// Ends the epoch. The lost group's ranks notice by themselves and say whom they miss; the other group is asked to leave.
    fn end(&mut self, lost: Role, reason: String) {
        if !self.has_served {
            return;
        }
        let now = Instant::now();
        let follows = !self.leaving;
        let pause = follows.then(|| self.restarts.take(self.ranks.serves, now)).flatten();
        let lost_at = self.recovery.map_or(now, |recovery| recovery.lost_at);
        self.recovery = pause.map(|pause| Recovery { lost_at, begin_at: now + pause });
        match self.recovery {
            Some(_) => self.desk.end_epoch(reason),
            None => self.desk.lose(reason),
        }
        self.desk.dismiss(match lost {
            Role::Decode => Role::Prefill,
            Role::Prefill => Role::Decode,
        });
    }

    /// Tells what ended the epoch, and what follows.
    fn gone(&mut self) {
        let Some(lost) = self.ranks.watch.lost().filter(|_| self.has_served) else { return };
        let (epoch, findings) = (self.ranks.epoch.0, self.ranks.watch.findings());
        say(&format!(
            "lockstep: the {lost} group is lost, and epoch {epoch} with it:\n  {}",
            findings.join("\n  ")
        ));
        self.desk.explain(findings.join("; "));
        self.keep_evidence();
        if self.leaving {
            return;
        }
        let restarts = &self.restarts;
        match self.recovery {
            Some(_) => say(&format!("lockstep: epoch {} follows; {restarts}", epoch + 1)),
            None => {
                say(&format!("lockstep: no epoch follows: {restarts}; stop this program and start it anew"))
            }
        }
    }

    /// Keeps what the ranks left, before their directory goes.
    fn keep_evidence(&self) {
        let Some(directory) = &self.directory else { return };
        match self.plan.evidence.keep(directory.path(), self.ranks.epoch) {
            Ok(None) => {}
            Ok(Some(bundle)) => say(&format!("lockstep: the ranks' last lines are in {}", bundle.display())),
            Err(error) => say(&format!("lockstep: the ranks' last lines can not be kept: {error}")),
        }
    }

    /// Processes that can not be killed may still write into the memory of others: nothing is started beside them.
    fn stuck(&mut self, ranks: &[RankName]) {
        let names: Vec<String> = ranks.iter().map(RankName::to_string).collect();
        let reason = format!("{} can not be killed, so no epoch may follow", names.join(", "));
        say(&format!("lockstep: {reason}; reset what holds these processes, and start this program anew"));
        self.recovery = None;
        self.desk.lose(reason);
    }
}
