//! The supervisor's loop: one queue of events, one tick, one order to stop. How an epoch ends is in `endings`, and
//! what concerns ranks of launchers alone in `calling`.

mod calling;
mod endings;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::anteroom::Call;
use super::epoch::EpochRanks;
use super::event::{Caller, Event};
use super::link::{self, LinkEnd, LinkReport};
use super::muster::Source;
use super::plan::{Departure, Limits, SupervisorError, SupervisorPlan};
use super::process::Exit;
use super::recruit;
use super::restarts::Restarts;
use super::say;
use super::stop::Stop;
use crate::frontend::Desk;
use crate::launch::RankArguments;
use crate::wire::{Role, WireError};

/// Wait after a failed accept: the process is out of descriptors, and only time gives some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time for the last words to connections once no rank is left.
const FAREWELL: Duration = Duration::from_millis(500);

/// Events that wait: a few of each rank, and connections.
const QUEUED_EVENTS: usize = 4096;

/// An epoch that is to follow the one that was lost, or to be the first.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    lost_at: Option<Instant>,
    begin_at: Instant,
    /// Until when clients wait for launchers.
    patience: Option<Instant>,
}

/// Starts and watches the ranks of both groups, epoch after epoch.
pub struct Supervisor {
    source: Source,
    limits: Limits,
    drain: Duration,
    desk: Arc<Desk>,
    ticker: Interval,
    tasks: JoinSet<()>,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    ranks: EpochRanks,
    restarts: Restarts,
    recovery: Option<Recovery>,
    /// Whether what is lost is recovered from: not before ranks that are started here have served once.
    recovers: bool,
    leaving: bool,
    departure: Departure,
}

impl Supervisor {
    /// A supervisor that has started nothing yet.
    pub fn new(plan: SupervisorPlan, desk: Arc<Desk>) -> Self {
        let SupervisorPlan { muster, limits, restarts, drain } = plan;
        let mut ticker = interval(limits.tick.max(Duration::from_millis(1)));
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (sender, events) = mpsc::channel(QUEUED_EVENTS);
        let source = Source::new(muster);
        Self {
            ranks: EpochRanks::before(desk.begin_epoch()),
            restarts: Restarts::new(restarts),
            recovers: source.is_called(),
            source,
            limits,
            drain,
            desk,
            ticker,
            tasks: JoinSet::new(),
            sender,
            events,
            recovery: None,
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
        let verdict = match self.begin_first() {
            Ok(()) => self.watch(&stop).await,
            Err(error) => Err(error),
        };
        if verdict.is_ok() {
            self.drain(&stop).await;
        }
        let left = self.leave(&stop).await;
        self.desk.end_streams();
        self.say_farewell().await;
        match verdict {
            Err(SupervisorError::StartFailed { .. }) => {
                Err(SupervisorError::StartFailed { findings: self.ranks.watch.findings().to_vec() })
            }
            verdict => verdict.and(left).map(|()| self.departure),
        }
    }

    /// Begins the first epoch, or has it begin once all ranks have come.
    fn begin_first(&mut self) -> Result<(), SupervisorError> {
        match self.source {
            Source::Called(..) => {
                self.recovery = Some(Recovery { lost_at: None, begin_at: Instant::now(), patience: None });
                Ok(())
            }
            Source::Started(..) => self.begin(),
        }
    }

    /// Begins an epoch: nothing of the one before is left.
    fn begin(&mut self) -> Result<(), SupervisorError> {
        let epoch = self.desk.begin_epoch();
        self.ranks = EpochRanks::new(epoch, self.limits.grace);
        let children = match &mut self.source {
            Source::Called(_, anteroom, _) => {
                let mustered = anteroom.muster(epoch);
                mustered
                    .into_iter()
                    .for_each(|(seat, assignment, recruit)| self.call(seat, assignment, recruit));
                return Ok(());
            }
            Source::Started(_, nursery) => nursery.ranks(),
        };
        for arguments in children {
            let rank = arguments.plan.name();
            self.start(arguments).map_err(|source| SupervisorError::Spawn { rank, source })?;
        }
        Ok(())
    }

    fn start(&mut self, arguments: RankArguments) -> io::Result<()> {
        let (name, epoch) = (arguments.plan.name(), self.ranks.epoch);
        let Source::Started(_, nursery) = &mut self.source else { return Ok(()) };
        let process = nursery.start(arguments, epoch)?;
        self.desk.process_started(name, process.pid);
        self.departure.pids.push(process.pid);
        self.ranks.started(name, Some(process.pid), Arc::clone(&process.kill));
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
        self.recovers = true;
        if let Some(lost_at) = self.recovery.take().and_then(|recovery| recovery.lost_at) {
            let seconds = lost_at.elapsed().as_secs_f32();
            say(&format!("lockstep: epoch {} serves, {seconds:.1} s after the loss", self.ranks.epoch.0));
        }
    }

    /// Notes that the epoch can not serve any more before it did: an error in the first one, a loss in others.
    fn check_start(&mut self) -> Result<(), SupervisorError> {
        let start = self.limits.start;
        let late = Instant::now() >= self.ranks.begun + start;
        match (self.ranks.watch.is_whole(), self.desk.unready()) {
            (false, _) if !self.recovers => Err(SupervisorError::StartFailed { findings: Vec::new() }),
            (true, Some(_)) if late && !self.recovers => {
                Err(SupervisorError::StartTimedOut { seconds: start.as_secs() })
            }
            (true, Some(rank)) if late => {
                self.found(rank.role, format!("{rank} was not ready within {} s", start.as_secs()));
                Ok(())
            }
            (true, Some(_) | None) | (false, _) => Ok(()),
        }
    }

    /// Begins the epoch that is to follow, once nothing is left of the one that was lost and its ranks are to be had.
    fn recover(&mut self) {
        let due = |recovery: Recovery| Instant::now() >= recovery.begin_at;
        if !self.ranks.watch.is_gone() || !self.recovery.is_some_and(due) {
            return;
        }
        if !self.source.is_complete() {
            return self.check_patience();
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
        let until = Instant::now() + self.drain;
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
        let patience = if orderly { self.limits.leave } else { self.limits.grace };
        self.leaving = true;
        self.desk.stop();
        if let Source::Called(_, anteroom, _) = &mut self.source {
            anteroom.clear(|| Call::Leave);
        }
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

    /// Lets connections that are still told something end by themselves.
    async fn say_farewell(&mut self) {
        if self.source.is_called() {
            let all = async { while self.tasks.join_next().await.is_some() {} };
            tokio::time::timeout(FAREWELL, all).await.ok();
        }
    }

    /// Waits for the next event: a tick at the latest.
    async fn next_event(&mut self) -> Event {
        tokio::select! {
            Some(event) = self.events.recv() => event,
            accepted = self.source.accept() => Event::Accepted(accepted),
            _ = self.ticker.tick() => Event::Tick,
        }
    }

    async fn handle(&mut self, event: Event) {
        self.note_ready();
        match event {
            Event::Accepted(Ok(caller)) => self.serve_link(caller),
            Event::Accepted(Err(error)) => {
                say(&format!("lockstep: a control connection could not be accepted: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Event::Enlisted(recruit) => self.enlist(recruit),
            Event::Exited(name, exit) => self.ranks.exited(name, exit),
            Event::LinkEnded(report) => self.link_ended(report),
            Event::Tick => self.tick(),
        }
        self.settle_exits();
        if let Some(action) = self.ranks.watch.tick(Instant::now()) {
            self.perform(action);
        }
    }

    fn serve_link(&mut self, caller: Caller) {
        let (sender, desk) = (self.sender.clone(), Arc::clone(&self.desk));
        self.tasks.spawn(async move {
            let report = match caller {
                Caller::Child(stream) => link::serve(desk, stream).await,
                Caller::Stranger(stream, _permit) => recruit::serve(desk, stream, sender.clone()).await,
            };
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
            return if !matches!(end, LinkEnd::SentAway) {
                say(&format!("lockstep: {end}"))
            };
        };
        self.desk.link_ended(seat);
        // Another's epoch is over, and what came of it is known.
        if seat.epoch != self.ranks.epoch {
            return;
        }
        let (name, called) = (seat.name, self.source.is_called());
        match end {
            // What ends with its line is told below.
            LinkEnd::Wire(WireError::Closed { .. }) if called => {}
            LinkEnd::Wire(WireError::Closed { .. }) => self.ranks.watch.unlinked(name, Instant::now()),
            LinkEnd::Cut(_) | LinkEnd::Deserted(_) | LinkEnd::Fault(_) | LinkEnd::SentAway => {
                self.found(name.role, end.to_string());
            }
            LinkEnd::Stranger(_) | LinkEnd::Unreachable(_) | LinkEnd::Wire(_) => {
                self.found(name.role, end.to_string());
            }
        }
        if called {
            self.ranks.exited(name, Exit::Unlinked);
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
        let limits = self.limits;
        for (name, pid) in self.ranks.stopped(limits.ticks(limits.stopped)) {
            let seconds = limits.stopped.as_secs_f32();
            self.found(
                name.role,
                format!("{name} (pid {pid}) has been stopped by a signal for {seconds} s and is killed"),
            );
            self.ranks.kill(&[name]);
        }
    }
}
