//! The desk: journal and groups under one lock, between the HTTP handlers and the ranks' connections.
//!
//! Nothing here waits (a rank whose outbox is full is cut off), so the lock is held for microseconds and may be
//! taken from a destructor, which is how a client that leaves becomes an abort.
//!
//! An epoch at the desk: [`Desk::begin_epoch`], the ranks join, all are ready, and the leader is told every open request;
//! [`Desk::end_epoch`], and from then on the old ranks' words are late. In between, and under a pause, requests are accepted and wait in
//! the journal.

mod apart;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use super::attached::Attached;
use super::books::Books;
use super::error::ApiError;
use super::group_fault::GroupFault;
use super::groups::{Groups, RankState, smaller};
use super::journal::{Journal, STOPPING, Submission};
use super::live::LiveRequest;
use super::prefix::Prefix;
use super::status::Health;
use crate::wire::{FrontToRank, Progress, RankName, RankToFront, Role, Room, Seat};
use lockstep_spec::ids::{Epoch, RequestId};

pub(super) const DECODE_LEADER: RankName = RankName { role: Role::Decode, rank: 0 };

/// The epoch of groups that are formed for the first time.
const FIRST_EPOCH: Epoch = Epoch(1);

/// The desk's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskPlan {
    /// Ranks of the decode group.
    pub decode_ranks: u32,
    /// Ranks of the prefill group; none where it is a deployment of its own.
    pub prefill_ranks: u32,
    /// Requests that may be outstanding; one more is answered 429.
    pub max_queue: usize,
    /// Tokens of the vocabulary: ids are below it.
    pub vocabulary: u32,
    /// Which pages of a prompt are kept for prompts that begin alike.
    pub prefix: Prefix,
    /// Connections between the ranks of the two groups, at most.
    pub connections: u32,
    /// Ticks without a word, or without a round that is due, after which a ready rank counts as lost.
    pub silence_ticks: u32,
    /// Ticks without a round that is due after which `/health` turns red.
    pub stall_ticks: u32,
}

impl DeskPlan {
    /// How often a request whose attempt failed is tried again. Where prefill may die by itself, each connection to the last prefill side
    /// and to this one may fail another attempt before this one's end is known.
    fn retries(&self) -> u32 {
        if self.prefill_ranks == 0 { self.connections.saturating_mul(2) } else { 1 }
    }

    /// Messages that an outbox holds: a submission and an abort for each outstanding request (the leader reads in order, so no
    /// older ones can be left), and some for legs and the shutdown.
    pub fn outbox_messages(&self) -> usize {
        self.max_queue.saturating_mul(2).saturating_add(64)
    }
}

/// Whether requests are taken, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not every rank is ready yet.
    Starting,
    /// Requests are taken; what each rank can hold.
    Ready(Room),
    /// The groups are started anew; requests are taken and wait.
    Restarting {
        /// What each rank could hold, and will.
        room: Room,
        /// The epoch that is over.
        ended: Epoch,
        /// Why it is.
        reason: String,
    },
    /// A group is lost for good; why.
    Lost(String),
    /// The server stops.
    Stopping,
}

/// The meeting place of HTTP handlers, rank connections and supervisor.
#[derive(Debug)]
pub struct Desk {
    plan: DeskPlan,
    inner: Mutex<Books>,
    standing: watch::Sender<Standing>,
}

impl Desk {
    /// A desk without ranks yet.
    pub fn new(plan: DeskPlan) -> Arc<Self> {
        let groups = Groups::new(FIRST_EPOCH, plan.decode_ranks, plan.prefill_ranks);
        let journal = Journal::new(FIRST_EPOCH, plan.retries());
        let attached = (plan.prefill_ranks == 0).then(Attached::default);
        let mut inner =
            Books { prefix: plan.prefix, journal, groups, attached, paused: false, resumes: 0, restarts: 0 };
        inner.detach();
        Arc::new(Self { plan, inner: Mutex::new(inner), standing: watch::Sender::new(Standing::Starting) })
    }

    /// The desk's configuration.
    pub fn plan(&self) -> &DeskPlan {
        &self.plan
    }

    /// The standing, to be read and to be waited on.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// What every rank of either group can hold.
    ///
    /// # Errors
    /// The 503 that says why no request is taken now.
    pub fn room(&self) -> Result<Room, ApiError> {
        let elsewhere = self.lock().attached.as_ref().map(Attached::room);
        let here = self.room_here()?;
        match elsewhere {
            None => Ok(here),
            Some(room) => room.map(|room| smaller(here, room)).ok_or(ApiError::Starting),
        }
    }

    /// What every rank of this deployment can hold.
    fn room_here(&self) -> Result<Room, ApiError> {
        match &*self.standing.borrow() {
            Standing::Starting => Err(ApiError::Starting),
            Standing::Ready(room) | Standing::Restarting { room, .. } => Ok(*room),
            Standing::Lost(reason) => Err(ApiError::Lost { reason: reason.clone() }),
            Standing::Stopping => Err(ApiError::Stopping),
        }
    }

    /// Accepts a request and hands it to the decode leader, now or when there is one again. Dropping what is returned before its end
    /// aborts it.
    ///
    /// # Errors
    /// 503 when requests are not taken now, 429 when the queue is full.
    pub fn submit(self: &Arc<Self>, submission: Submission) -> Result<LiveRequest, ApiError> {
        let mut inner = self.lock();
        self.room_here()?;
        if inner.journal.outstanding() >= self.plan.max_queue {
            return Err(ApiError::QueueFull { limit: self.plan.max_queue });
        }
        let (request, deliveries) = inner.journal.accept(submission);
        inner.hand_over();
        Ok(LiveRequest::new(Arc::clone(self), request.0, deliveries))
    }

    /// Notes that nobody waits for a request any more; the decode leader is told once, unless the request has ended.
    pub(crate) fn abandon(&self, request: u64) {
        let mut inner = self.lock();
        if inner.journal.abandon(RequestId(request)) {
            // An outbox that is gone or full belongs to a group that is being lost, and the request with it.
            inner.groups.send(DECODE_LEADER, FrontToRank::Abort { request });
        }
        inner.tell_served();
    }

    /// Has both groups launch nothing, or go on. Under a pause requests are accepted and wait, and what was launched is finished; it holds
    /// for the epochs that follow too.
    ///
    /// # Errors
    /// The 503 that says why requests are not taken now.
    pub fn pause(&self, paused: bool) -> Result<(), ApiError> {
        let mut inner = self.lock();
        self.room_here()?;
        if std::mem::replace(&mut inner.paused, paused) != paused && inner.is_whole() {
            inner.tell_pause();
            inner.hand_over();
        }
        Ok(())
    }

    /// Whether `paused` is what [`Self::pause`] said last, and every rank has told that it does so: under a pause, that none of its
    /// forwards is in flight.
    pub fn is_pause_settled(&self, paused: bool) -> bool {
        let inner = self.lock();
        inner.paused == paused && inner.is_whole() && inner.groups.agree_on_pause(paused)
    }

    /// Begins the epoch: its ranks are about to be started, and those of the one before are gone.
    pub fn begin_epoch(&self) -> Epoch {
        let mut inner = self.lock();
        let epoch = inner.journal.epoch();
        inner.groups = Groups::new(epoch, self.plan.decode_ranks, self.plan.prefill_ranks);
        epoch
    }

    /// The epoch of the ranks that are, or were last.
    pub fn epoch(&self) -> Epoch {
        self.lock().groups.epoch()
    }

    /// Ends the epoch for `reason`: whatever its ranks still say is late. Streams stay open, and go on in the next.
    pub fn end_epoch(&self, reason: String) {
        let mut inner = self.lock();
        inner.journal.raise_epoch();
        inner.attached.iter_mut().for_each(Attached::forget);
        inner.detach();
        inner.restarts += 1;
        let ended = inner.groups.epoch();
        self.standing.send_if_modified(|standing| {
            let (Standing::Ready(room) | Standing::Restarting { room, .. }) = *standing else { return false };
            *standing = Standing::Restarting { room, ended, reason };
            true
        });
    }

    /// Notes the process of a rank.
    pub fn process_started(&self, rank: RankName, pid: u32) {
        self.lock().groups.started(rank, pid);
    }

    /// Binds a connection to its rank; `None` when it is not that rank's in this epoch, or the rank has one already.
    /// A rank that comes during the stop is asked to leave at once.
    pub fn join(&self, seat: Seat, pid: u32) -> Option<mpsc::Receiver<FrontToRank>> {
        let (outbox, inbox) = mpsc::channel(self.plan.outbox_messages());
        let mut inner = self.lock();
        let joined = inner.groups.join(seat, pid, outbox, Instant::now());
        if joined && *self.standing.borrow() == Standing::Stopping {
            inner.groups.send(seat.name, FrontToRank::Shutdown);
        }
        joined.then_some(inbox)
    }

    /// Takes in what a rank said.
    ///
    /// # Errors
    /// A [`GroupFault`] that ends the group of the rank it names.
    pub fn hear(&self, from: Seat, message: RankToFront) -> Result<(), GroupFault> {
        let mut inner = self.lock();
        let rank = from.name;
        if let Some(rank) = inner.groups.seat(from) {
            rank.heard(Instant::now());
        }
        match message {
            RankToFront::Hello { .. } => Err(GroupFault::OutOfPlace { rank, message: "hello" }),
            RankToFront::Fatal { text, missing_rank, last_ticket } => {
                Err(GroupFault::Fatal { rank, text, missing_rank, last_ticket })
            }
            RankToFront::Progress(progress) => {
                inner.progressed(from, progress);
                Ok(())
            }
            RankToFront::Ready(room) => {
                self.readied(&mut inner, from, room);
                Ok(())
            }
            RankToFront::Ended { request, outcome } => {
                leader_only(rank, "ended")?;
                let ended = inner.journal.ended(from.epoch, RequestId(request), outcome);
                ended.map_err(|source| GroupFault::Journal { rank, source })?;
                inner.tell_served();
                inner.hand_over();
                Ok(())
            }
            RankToFront::LegWanted { request, leg, generated } => {
                leader_only(rank, "leg_wanted")?;
                let answered = inner.answer_leg(from.epoch, request, leg, generated);
                answered.map_err(|source| GroupFault::Journal { rank, source })
            }
            RankToFront::Token { request, index, token, ended } => {
                leader_only(rank, "token")?;
                self.check_vocabulary(rank, token)?;
                let recorded = inner.journal.token(from.epoch, (RequestId(request), index), token, ended);
                recorded.map_err(|source| GroupFault::Journal { rank, source })?;
                inner.tell_served();
                Ok(())
            }
        }
    }

    /// Notes a rank's room. With the last one of the epoch, requests are taken, and the leader is told what is open.
    fn readied(&self, inner: &mut Books, from: Seat, room: Room) {
        if let Some(rank) = inner.groups.seat(from) {
            rank.room = Some(room);
            rank.advance(RankState::Ready);
        }
        let Some(room) = inner.groups.room().filter(|_| inner.groups.epoch() == inner.journal.epoch()) else {
            return;
        };
        let opened = self.standing.send_if_modified(|standing| {
            let opens = matches!(standing, Standing::Starting | Standing::Restarting { .. });
            if opens {
                *standing = Standing::Ready(room);
            }
            opens
        });
        if opened && inner.paused {
            inner.tell_pause();
        }
        inner.hand_over();
    }

    fn check_vocabulary(&self, rank: RankName, token: u32) -> Result<(), GroupFault> {
        let vocabulary = self.plan.vocabulary;
        (token < vocabulary).then_some(()).ok_or(GroupFault::Vocabulary { rank, token, vocabulary })
    }

    /// Notes that a rank's connection has ended.
    pub fn link_ended(&self, seat: Seat) {
        if let Some(rank) = self.lock().groups.seat(seat) {
            rank.advance(RankState::Fatal);
        }
    }

    /// Whether a rank's connection has come and ended.
    pub fn is_unlinked(&self, rank: RankName) -> bool {
        self.lock().groups.rank(rank).is_some_and(|rank| rank.state >= RankState::Fatal)
    }

    /// Notes that a rank's process has ended.
    pub fn process_ended(&self, rank: RankName) {
        if let Some(rank) = self.lock().groups.rank(rank) {
            rank.advance(RankState::Ended);
        }
    }

    /// Counts one tick of the supervisor's clock and names the ranks that have been silent, or without a round, for too long, and why.
    pub fn tick(&self) -> Vec<(RankName, String)> {
        let mut inner = self.lock();
        let silent = inner.groups.tick(self.plan.silence_ticks);
        silent.into_iter().chain(inner.stalled(self.plan.silence_ticks)).collect()
    }

    /// Declares the deployment lost: no epoch follows, streams end with an error, requests are refused.
    pub fn lose(&self, reason: String) {
        let mut inner = self.lock();
        inner.journal.raise_epoch();
        inner.journal.close(&reason);
        self.standing.send_if_modified(|standing| {
            let stays = *standing == Standing::Stopping;
            if !stays {
                *standing = Standing::Lost(reason);
            }
            !stays
        });
    }

    /// Ends every stream for `reason` between two epochs, and takes no requests until the next.
    pub fn suspend(&self, reason: &str) {
        let mut inner = self.lock();
        self.standing.send_if_modified(|standing| {
            let suspends = matches!(standing, Standing::Restarting { .. });
            if suspends {
                *standing = Standing::Starting;
                inner.journal.close(reason);
            }
            suspends
        });
    }

    /// Replaces the reason for which an epoch ended, now that more is known.
    pub fn explain(&self, known: String) {
        self.standing.send_if_modified(|standing| {
            let (Standing::Lost(reason) | Standing::Restarting { reason, .. }) = standing else {
                return false;
            };
            *reason = known;
            true
        });
    }

    /// Asks every rank of a group to leave, since the other group is lost.
    pub fn dismiss(&self, role: Role) {
        self.lock().tell_all(role, &FrontToRank::Dismiss);
    }

    /// Takes no more requests. Those that were taken go on.
    pub fn refuse(&self) {
        let _inner = self.lock();
        self.standing.send_replace(Standing::Stopping);
    }

    /// Whether requests are open that the groups may still end.
    pub fn is_working(&self) -> bool {
        let inner = self.lock();
        !inner.paused && inner.journal.outstanding() > 0
    }

    /// Takes no more requests and asks every rank to leave. Running streams go on until [`Self::end_streams`].
    pub fn stop(&self) {
        let mut inner = self.lock();
        self.standing.send_replace(Standing::Stopping);
        [Role::Decode, Role::Prefill].iter().for_each(|role| inner.tell_all(*role, &FrontToRank::Shutdown));
    }

    /// Ends what is left of the streams, at the end of an orderly stop.
    pub fn end_streams(&self) {
        self.lock().journal.close(STOPPING);
    }

    /// The latest counters of every rank.
    pub fn progress(&self) -> BTreeMap<RankName, Progress> {
        self.lock().groups.progress()
    }

    /// A rank of this epoch that has not been ready yet, if there is one.
    pub fn unready(&self) -> Option<RankName> {
        self.lock().groups.unready()
    }

    /// Whether every rank tells that no slot and no page is taken.
    pub fn is_drained(&self) -> bool {
        self.lock().groups.is_drained()
    }

    /// What `/health` says.
    pub fn health(&self) -> Health {
        let inner = self.lock();
        let count = |count| u64::try_from(count).unwrap_or(u64::MAX);
        let stalled = inner.stalled(self.plan.stall_ticks).map(|(_, why)| why);
        Health {
            epoch: inner.groups.epoch().0,
            restarts: inner.restarts,
            resumes: inner.resumes,
            queue: count(inner.journal.outstanding()),
            queue_limit: count(self.plan.max_queue),
            groups: inner.groups.health(Instant::now()),
            prefill: inner.attached.as_ref().map(|attached| match attached.is_attached() {
                true => "attached",
                false => "away",
            }),
            ..Health::of(&self.standing.borrow(), inner.paused, stalled)
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        // A panic in another thread must not take the destructors of its neighbours down with it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn leader_only(rank: RankName, message: &'static str) -> Result<(), GroupFault> {
    rank.is_leader_of(Role::Decode).then_some(()).ok_or(GroupFault::OutOfPlace { rank, message })
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
