//! Journal and groups: what one side is told because of what the other said. Without I/O; [`super::desk`] holds the lock.

use super::attached::Attached;
use super::desk::DECODE_LEADER;
use super::groups::Groups;
use super::journal::{Journal, JournalFault};
use super::prefix::Prefix;
use crate::wire::{Draw, FrontToRank, Leg, Progress, RankName, Role, Seat};
use lockstep_spec::ids::{Attempt, Epoch, RequestId};

/// The books of a desk. To be had under its lock.
#[derive(Debug)]
pub(super) struct Books {
    /// What was accepted, and what of it was sent.
    pub(super) journal: Journal,
    /// What the ranks have said of themselves.
    pub(super) groups: Groups,
    /// The way to a prefill side that is a deployment of its own; none where this one has both groups, or prefill alone.
    pub(super) attached: Option<Attached>,
    /// Which pages of a prompt have keys.
    pub(super) prefix: Prefix,
    /// Whether the operator wants nothing launched; it outlives epochs.
    pub(super) paused: bool,
    /// Legs wanted anew, since the start.
    pub(super) resumes: u64,
    /// Epochs that followed one that was lost, since the start.
    pub(super) restarts: u64,
}

impl Books {
    /// Whether the epoch of the ranks is the one that the journal is in, and all of them are ready.
    pub(super) fn is_whole(&self) -> bool {
        self.groups.epoch() == self.journal.epoch() && self.groups.unready().is_none()
    }

    /// Tells the decode leader of every request that it is to be told of, unless there is none, it is paused, or prefill is away: both hold them
    /// back here, where they have no deadline yet.
    pub(super) fn hand_over(&mut self) {
        if self.paused || self.journal.is_away() || !self.is_whole() {
            return;
        }
        for request in self.journal.submissions() {
            // An outbox that is gone or full belongs to a group that is being lost; the next one is told what is open.
            self.groups.send(DECODE_LEADER, FrontToRank::Submit(request));
        }
    }

    /// A rank that has not come to a round that is due for more than `limit` ticks, and what is known of it.
    pub(super) fn stalled(&self, limit: u32) -> Option<(RankName, String)> {
        let has_work = self.journal.outstanding() > 0 || self.groups.holds_work();
        self.groups.stalled(has_work, limit)
    }

    /// Tells both leaders whether they are paused.
    pub(super) fn tell_pause(&mut self) {
        let word = if self.paused { FrontToRank::Pause } else { FrontToRank::Resume };
        self.groups.expect_pause(self.paused);
        for role in [Role::Decode, Role::Prefill] {
            self.groups.send(RankName { role, rank: 0 }, word.clone());
        }
    }

    /// Notes a rank's counters.
    pub(super) fn progressed(&mut self, from: Seat, progress: Progress) {
        if let Some(rank) = self.groups.seat(from) {
            rank.progress = Some(progress);
        }
    }

    /// Sends the tokens of a leg that is wanted to every prefill rank.
    ///
    /// # Errors
    /// A [`JournalFault`] when the request is not open or has fewer tokens.
    pub(super) fn answer_leg(
        &mut self,
        epoch: Epoch,
        request: u64,
        leg: Leg,
        generated: u32,
    ) -> Result<(), JournalFault> {
        let Some(work) = self.journal.leg(epoch, RequestId(request), generated)? else {
            return Ok(());
        };
        self.resumes += u64::from(leg.attempt > Attempt(0));
        match &mut self.attached {
            Some(attached) => attached.want((request, generated), leg, work),
            None => self.compute(leg, request, &work),
        }
        Ok(())
    }

    /// Has every prefill rank of this deployment compute a leg.
    pub(super) fn compute(&mut self, leg: Leg, acceptance: u64, (tokens, draw): &(Vec<u32>, Draw)) {
        for rank in self.groups.names(Role::Prefill) {
            let keys = if rank.rank == 0 { self.prefix.keys(tokens) } else { Vec::new() };
            let message = FrontToRank::Leg { leg, acceptance, tokens: tokens.clone(), keys, draw: *draw };
            self.groups.send(rank, message);
        }
    }

    /// Asks over a new line for what is still wanted: what was said over the last one may be lost.
    pub(super) fn ask_again(&mut self) {
        let epoch = self.journal.epoch();
        let Some(attached) = &mut self.attached else { return };
        for ((request, generated), leg) in attached.wanted(|request| self.journal.is_open(request)) {
            // Of an open request, so many tokens were sent when it was wanted.
            if let Ok(Some(work)) = self.journal.leg(epoch, RequestId(request), generated) {
                attached.want((request, generated), leg, work);
            }
        }
    }

    /// Has prefill's front end answer those that wait there for what was delivered here.
    pub(super) fn tell_served(&mut self) {
        let served = self.journal.served();
        if let Some(attached) = &mut self.attached {
            served.into_iter().for_each(|room| attached.served(room));
        }
    }

    /// Notes that there is no line, or that it is to be another one. What is submitted meanwhile is held back.
    pub(super) fn detach(&mut self) {
        if let Some(attached) = &mut self.attached {
            attached.detach();
            self.journal.set_away(true);
        }
    }

    /// Says one word to every rank of a group.
    pub(super) fn tell_all(&mut self, role: Role, word: &FrontToRank) {
        for rank in self.groups.names(role) {
            self.groups.send(rank, word.clone());
        }
    }
}
