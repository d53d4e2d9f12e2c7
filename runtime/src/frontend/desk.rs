//! The desk: journal and groups under one lock, between the HTTP handlers and the ranks' connections.
//!
//! Nothing here waits (a rank whose outbox is full is cut off), so the lock is held for microseconds and may be
//! taken from a destructor, which is how a client that leaves becomes an abort.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use thiserror::Error;
use tokio::sync::{mpsc, watch};

use super::error::ApiError;
use super::groups::{Groups, RankState};
use super::journal::{Journal, JournalFault, STOPPING, Submission};
use super::live::LiveRequest;
use super::status::Health;
use crate::wire::{FrontToRank, Leg, Outcome, Progress, RankName, RankToFront, Role, Room};

const DECODE_LEADER: RankName = RankName { role: Role::Decode, rank: 0 };

/// The desk's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskPlan {
    /// Ranks of the decode group.
    pub decode_ranks: u32,
    /// Ranks of the prefill group.
    pub prefill_ranks: u32,
    /// Requests that may be outstanding; one more is answered 429.
    pub max_queue: usize,
    /// Tokens of the vocabulary: ids are below it.
    pub vocabulary: u32,
    /// Ticks without a word after which a ready rank counts as lost.
    pub silence_ticks: u32,
}

impl DeskPlan {
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
    /// A group is lost; why.
    Lost(String),
    /// The server stops.
    Stopping,
}

/// A rank's words that end its group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GroupFault {
    /// It said itself that it ends.
    #[error("{rank} ends: {text}{}{}", missing_text(*.missing_rank), ticket_text(.last_ticket.as_deref()))]
    Fatal {
        /// Who said it.
        rank: RankName,
        /// What went wrong.
        text: String,
        /// The rank that did not come.
        missing_rank: Option<u32>,
        /// The last ticket it entered.
        last_ticket: Option<String>,
    },
    /// It broke the order of a request.
    #[error("{rank} broke the protocol: {source}")]
    Journal {
        /// Who broke it.
        rank: RankName,
        /// How.
        source: JournalFault,
    },
    /// It said what only the decode leader may, or said hello twice.
    #[error("{rank} sent a message that is not its to send: {message}")]
    OutOfPlace {
        /// Who sent it.
        rank: RankName,
        /// The message's name.
        message: &'static str,
    },
    /// It sent a token that the vocabulary does not have.
    #[error("{rank} sent token {token}, but the vocabulary has {vocabulary}")]
    Vocabulary {
        /// Who sent it.
        rank: RankName,
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        vocabulary: u32,
    },
}

fn missing_text(rank: Option<u32>) -> String {
    rank.map(|rank| format!("; missing: rank {rank}")).unwrap_or_default()
}

fn ticket_text(ticket: Option<&str>) -> String {
    ticket.map(|ticket| format!("; last ticket: {ticket}")).unwrap_or_default()
}

#[derive(Debug)]
struct Inner {
    journal: Journal,
    groups: Groups,
    lost: BTreeMap<Role, String>,
    resumes: u64,
}

/// The meeting place of HTTP handlers, rank connections and supervisor.
#[derive(Debug)]
pub struct Desk {
    plan: DeskPlan,
    inner: Mutex<Inner>,
    standing: watch::Sender<Standing>,
}

impl Desk {
    /// A desk without ranks yet.
    pub fn new(plan: DeskPlan) -> Arc<Self> {
        let groups = Groups::new(plan.decode_ranks, plan.prefill_ranks);
        let inner = Inner { journal: Journal::default(), groups, lost: BTreeMap::new(), resumes: 0 };
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

    /// What every rank can hold.
    ///
    /// # Errors
    /// The 503 that says why no request is taken now.
    pub fn room(&self) -> Result<Room, ApiError> {
        match &*self.standing.borrow() {
            Standing::Starting => Err(ApiError::Starting),
            Standing::Ready(room) => Ok(*room),
            Standing::Lost(reason) => Err(ApiError::Lost { reason: reason.clone() }),
            Standing::Stopping => Err(ApiError::Stopping),
        }
    }

    /// Accepts a request and hands it to the decode leader. Dropping what is returned before its end aborts it.
    ///
    /// # Errors
    /// 503 when requests are not taken now, 429 when the queue is full.
    pub fn submit(self: &Arc<Self>, submission: Submission) -> Result<LiveRequest, ApiError> {
        let mut inner = self.lock();
        self.room()?;
        if inner.journal.outstanding() >= self.plan.max_queue {
            return Err(ApiError::QueueFull { limit: self.plan.max_queue });
        }
        let prompt_tokens = u32::try_from(submission.prompt.len()).unwrap_or(u32::MAX);
        let Submission { max_tokens, ignore_eos, .. } = submission;
        let (request, deliveries) = inner.journal.accept(submission);
        let message = FrontToRank::Submit { request, prompt_tokens, max_tokens, ignore_eos };
        if !inner.groups.send(DECODE_LEADER, message) {
            let reason = String::from("the decode leader takes no requests");
            inner.journal.ended(request, Outcome::Aborted).ok();
            return Err(ApiError::Lost { reason });
        }
        Ok(LiveRequest::new(Arc::clone(self), request, deliveries))
    }

    /// Notes that nobody waits for a request any more; the decode leader is told once, unless the request has ended.
    pub(crate) fn abandon(&self, request: u64) {
        let mut inner = self.lock();
        if inner.journal.abandon(request) {
            // An outbox that is gone or full belongs to a group that is being lost, and the request with it.
            inner.groups.send(DECODE_LEADER, FrontToRank::Abort { request });
        }
    }

    /// Notes the process of a rank.
    pub fn process_started(&self, rank: RankName, pid: u32) {
        self.lock().groups.started(rank, pid);
    }

    /// Binds a connection to its rank; `None` when it is not that rank's, or the rank has one already.
    /// A rank that comes during the stop is asked to leave at once.
    pub fn join(&self, rank: RankName, pid: u32) -> Option<mpsc::Receiver<FrontToRank>> {
        let (outbox, inbox) = mpsc::channel(self.plan.outbox_messages());
        let mut inner = self.lock();
        let joined = inner.groups.join(rank, pid, outbox, Instant::now());
        if joined && *self.standing.borrow() == Standing::Stopping {
            inner.groups.send(rank, FrontToRank::Shutdown);
        }
        joined.then_some(inbox)
    }

    /// Takes in what a rank said.
    ///
    /// # Errors
    /// A [`GroupFault`] that ends the group of the rank it names.
    pub fn hear(&self, from: RankName, message: RankToFront) -> Result<(), GroupFault> {
        let mut inner = self.lock();
        if let Some(rank) = inner.groups.rank(from) {
            rank.heard(Instant::now());
        }
        match message {
            RankToFront::Hello { .. } => Err(GroupFault::OutOfPlace { rank: from, message: "hello" }),
            RankToFront::Fatal { text, missing_rank, last_ticket } => {
                Err(GroupFault::Fatal { rank: from, text, missing_rank, last_ticket })
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
                leader_only(from, "ended")?;
                inner
                    .journal
                    .ended(request, outcome)
                    .map_err(|source| GroupFault::Journal { rank: from, source })
            }
            RankToFront::LegWanted { request, leg, generated } => {
                leader_only(from, "leg_wanted")?;
                inner.resumes += u64::from(generated > 0);
                let answered = inner.answer_leg(request, leg, generated);
                answered.map_err(|source| GroupFault::Journal { rank: from, source })
            }
            RankToFront::Token { request, index, token, ended } => {
                leader_only(from, "token")?;
                self.check_vocabulary(from, token)?;
                let recorded = inner.journal.token(request, index, token, ended);
                recorded.map_err(|source| GroupFault::Journal { rank: from, source })
            }
        }
    }

    fn readied(&self, inner: &mut Inner, from: RankName, room: Room) {
        if let Some(rank) = inner.groups.rank(from) {
            rank.room = Some(room);
            rank.advance(RankState::Ready);
        }
        if let Some(room) = inner.groups.room() {
            self.standing.send_if_modified(|standing| {
                let starting = *standing == Standing::Starting;
                if starting {
                    *standing = Standing::Ready(room);
                }
                starting
            });
        }
    }

    fn check_vocabulary(&self, rank: RankName, token: u32) -> Result<(), GroupFault> {
        let vocabulary = self.plan.vocabulary;
        (token < vocabulary).then_some(()).ok_or(GroupFault::Vocabulary { rank, token, vocabulary })
    }

    /// Notes that a rank's connection has ended.
    pub fn link_ended(&self, rank: RankName) {
        self.advance(rank, RankState::Fatal);
    }

    /// Whether a rank's connection has come and ended.
    pub fn is_unlinked(&self, rank: RankName) -> bool {
        self.lock().groups.rank(rank).is_some_and(|rank| rank.state >= RankState::Fatal)
    }

    /// Notes that a rank's process has ended.
    pub fn process_ended(&self, rank: RankName) {
        self.advance(rank, RankState::Ended);
    }

    fn advance(&self, rank: RankName, state: RankState) {
        if let Some(rank) = self.lock().groups.rank(rank) {
            rank.advance(state);
        }
    }

    /// Counts one tick of the supervisor's clock and names the ranks that have been silent for too long.
    pub fn tick(&self) -> Vec<RankName> {
        self.lock().groups.tick(self.plan.silence_ticks)
    }

    /// Declares a group lost: streams end with an error, requests are refused. A later reason for the same group replaces it.
    pub fn lose(&self, role: Role, reason: String) {
        let mut inner = self.lock();
        inner.lost.insert(role, reason);
        let reason = inner.lost.values().cloned().collect::<Vec<_>>().join("; ");
        let aborts = inner.journal.end_streams(&reason);
        match role {
            Role::Decode => inner.journal.forget_all(),
            Role::Prefill => inner.abort(aborts),
        }
        self.standing.send_if_modified(|standing| {
            let stays = *standing == Standing::Stopping;
            if !stays {
                *standing = Standing::Lost(reason);
            }
            !stays
        });
    }

    /// Takes no more requests and asks every rank to leave. Running streams go on until [`Self::end_streams`].
    pub fn stop(&self) {
        let mut inner = self.lock();
        self.standing.send_replace(Standing::Stopping);
        for role in [Role::Decode, Role::Prefill] {
            for rank in inner.groups.names(role) {
                inner.groups.send(rank, FrontToRank::Shutdown);
            }
        }
    }

    /// Ends what is left of the streams, at the end of an orderly stop.
    pub fn end_streams(&self) {
        let mut inner = self.lock();
        inner.journal.end_streams(STOPPING);
        inner.journal.forget_all();
    }

    /// The latest counters of every rank.
    pub fn progress(&self) -> BTreeMap<RankName, Progress> {
        self.lock().groups.progress()
    }

    /// Whether every rank has been ready, whatever has happened since.
    pub fn has_started(&self) -> bool {
        self.lock().groups.room().is_some()
    }

    /// Whether every rank tells that no slot and no page is taken.
    pub fn is_drained(&self) -> bool {
        self.lock().groups.is_drained()
    }

    /// What `/health` says.
    pub fn health(&self) -> Health {
        let inner = self.lock();
        Health::new(&self.standing.borrow(), inner.groups.health(Instant::now()), inner.resumes)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in another thread must not take the destructors of its neighbours down with it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn progressed(&mut self, from: RankName, progress: Progress) {
        if let Some(rank) = self.groups.rank(from) {
            rank.progress = Some(progress);
        }
    }

    fn answer_leg(&mut self, request: u64, leg: Leg, generated: u32) -> Result<(), JournalFault> {
        let tokens = self.journal.leg_tokens(request, generated)?;
        for rank in self.groups.names(Role::Prefill) {
            let message = FrontToRank::Leg { leg, acceptance: request, tokens: tokens.clone() };
            self.groups.send(rank, message);
        }
        Ok(())
    }

    fn abort(&mut self, requests: Vec<u64>) {
        for request in requests {
            self.groups.send(DECODE_LEADER, FrontToRank::Abort { request });
        }
    }
}

fn leader_only(rank: RankName, message: &'static str) -> Result<(), GroupFault> {
    rank.is_leader_of(Role::Decode).then_some(()).ok_or(GroupFault::OutOfPlace { rank, message })
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
