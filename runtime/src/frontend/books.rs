//! Journal and groups: what one side is told because of what the other said. Without I/O; [`super::desk`] holds the lock.

use super::desk::DECODE_LEADER;
use super::groups::Groups;
use super::journal::{Journal, JournalFault};
use crate::wire::{Draw, FrontToRank, Leg, Progress, RankName, Role, Seat};
use lockstep_spec::ids::{Attempt, Epoch, RequestId};

/// The books of a desk. To be had under its lock.
#[derive(Debug)]
pub(super) struct Books {
    /// What was accepted, and what of it was sent.
    pub(super) journal: Journal,
    /// What the ranks have said of themselves.
    pub(super) groups: Groups,
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

    /// Tells the decode leader of every request that it is to be told of, unless there is none or it is paused. A pause holds them back
    /// here, where they have no deadline yet.
    pub(super) fn hand_over(&mut self) {
        if self.paused || !self.is_whole() {
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
        let Some((tokens, sampling)) = self.journal.leg(epoch, RequestId(request), generated)? else {
            return Ok(());
        };
        let draw = Draw { sampling, index: generated };
        self.resumes += u64::from(leg.attempt > Attempt(0));
        for rank in self.groups.names(Role::Prefill) {
            let message = FrontToRank::Leg { leg, acceptance: request, tokens: tokens.clone(), draw };
            self.groups.send(rank, message);
        }
        Ok(())
    }

    /// Says one word to every rank of a group.
    pub(super) fn tell_all(&mut self, role: Role, word: &FrontToRank) {
        for rank in self.groups.names(role) {
            self.groups.send(rank, word.clone());
        }
    }
}
