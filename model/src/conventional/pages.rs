//! Pages of a conventional rank: admission, growth with retraction, and their return.

use crate::conventional::rank::{ConventionalRank, Place};
use crate::conventional::request::{Phase, Request};
use crate::conventional::rules::{Admission, Ahead, Fence, Release, Retraction};

impl ConventionalRank {
    /// Whether a request's page is held: also by a forward whose result is not read, where pages wait for that.
    pub(super) fn holds(&self, index: usize) -> bool {
        let unread = || self.unread.iter().any(|batch| batch.contains(&index));
        self.requests[index].phase.holds_page() || (self.rules().ahead == Ahead::KeepsPages && unread())
    }

    /// Pages that the phases of all requests leave.
    fn free(&self) -> usize {
        let of = |index: usize| self.requests[index].pages().max(usize::from(self.holds(index)));
        let held: usize = (0..self.requests.len()).map(of).sum();
        self.pages.saturating_sub(held)
    }

    /// Free pages as this rank's allocator has them.
    fn own_free(&self) -> usize {
        self.free().saturating_sub(usize::from(self.page_late))
    }

    /// Gives pages out in order of arrival.
    pub(super) fn admit(&mut self) {
        let free = match self.rules().admission {
            Admission::AgreedPages => self.free(),
            Admission::OwnPages => self.own_free(),
        };
        let ready = self.queued(|request| request.phase == Phase::Handshaken);
        for index in ready.into_iter().take(free) {
            self.requests[index].phase = Phase::Transferring;
            self.requests[index].writing = self.rules().fence != Fence::Unneeded;
        }
        self.place = Place::TransferPoll;
    }

    /// Resumes, then takes the pages of next tokens, oldest first; whoever lacks one is retracted. Returns whether a request is.
    pub(super) fn retract(&mut self) -> bool {
        for index in self.queued(|request| request.phase == Phase::Retracted) {
            if self.growth_free() > 1 {
                self.requests[index].phase = Phase::Landed;
                self.requests[index].grown = true;
            }
        }
        let lacking =
            |request: &Request| request.phase == Phase::Landed && request.tokens > 0 && !request.grown;
        for index in self.queued(lacking) {
            if self.growth_free() > 0 {
                self.requests[index].grown = true;
            } else {
                self.requests[index].phase = Phase::Retracted;
            }
        }
        self.requests.iter().any(|request| request.phase == Phase::Retracted)
    }

    fn growth_free(&self) -> usize {
        match self.rules().retraction {
            Retraction::Never | Retraction::AgreedPages => self.free(),
            Retraction::OwnPages => self.own_free(),
        }
    }

    /// Ends a request; its page goes back, unless that throws and nobody minds.
    pub(super) fn end(&mut self, index: usize, phase: Phase) {
        let held = self.requests[index].phase.holds_page() && !phase.holds_page();
        if held && core::mem::take(&mut self.throws) {
            self.lost += usize::from(self.rules().release == Release::Swallowed);
        }
        self.requests[index].end(phase);
    }
}
