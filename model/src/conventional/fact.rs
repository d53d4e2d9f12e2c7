//! What reaches one rank of a conventional group alone, and what the rank makes of it.

use crate::conventional::rank::{Address, ConventionalRank};
use crate::conventional::request::{HostCopy, MetadataRow, Phase};
use crate::conventional::rules::{Eviction, Fence, GiveUp, Word};

/// What reaches one rank alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The next request reached rank 0.
    Arrived,
    /// The front end wants all requests ended.
    AbortHeard,
    /// The front end wants the group paused.
    PauseHeard,
    /// The front end wants the group to go on.
    ResumeHeard,
    /// The front end wants the group to take the other role; reaches rank 0.
    SwitchAsked,
    /// The prefill address was looked up: a hit for requests to come, a resolved miss for those that wait.
    AddressResolved,
    /// The retries for the prefill address are used up.
    RetriesExhausted,
    /// The receiver of a request is `WaitingForInput`.
    HandshakeDone(usize),
    /// What an earlier request held is back in this rank's allocator.
    PageFreed,
    /// A request's KV landed.
    KvLanded(usize),
    /// A request's metadata row landed.
    RowLanded(usize, MetadataRow),
    /// Nothing can write into a request's page any more.
    Fenced(usize),
    /// The time of a waiting request is up, by this rank's clock.
    TimedOut(usize),
    /// This rank's logits differ in a last bit: what it samples next ends the output.
    LogitsDiffer,
    /// The oldest forward has finished on this rank's device.
    Retired,
    /// This rank's host has no room for a copy.
    HostFull,
    /// The device event of a request's copy to the host has fired.
    CopyDone(usize),
    /// Giving the next page back will throw.
    ReleaseThrows,
}

impl ConventionalRank {
    pub(super) fn see(&mut self, fact: Fact) {
        match fact {
            Fact::Arrived => self.heard.arrived += 1,
            Fact::AbortHeard => {
                self.heard.abort = true;
                if self.rules().aborts == Word::AsHeard {
                    self.abort_all();
                }
            }
            Fact::PauseHeard => self.heard.pause = true,
            Fact::ResumeHeard => self.heard.pause = false,
            Fact::SwitchAsked => self.heard.switch = true,
            Fact::AddressResolved => {
                let missed = self.requests.iter().any(|request| request.phase.shakes());
                self.address = if missed { Address::Resolved } else { Address::Cached };
            }
            Fact::RetriesExhausted => {
                let unresolved = self.queued(|request| request.phase == Phase::Handshaking);
                unresolved.into_iter().for_each(|index| self.give_up(index, self.rules().retries));
            }
            Fact::HandshakeDone(index) => self.requests[index].shaken = true,
            Fact::PageFreed => self.page_late = false,
            Fact::KvLanded(index) => self.see_kv(index),
            Fact::RowLanded(index, row) => self.requests[index].row = row,
            Fact::Fenced(index) => self.requests[index].writing = false,
            Fact::TimedOut(index) => self.give_up(index, self.rules().clock),
            Fact::LogitsDiffer => self.drifted = true,
            Fact::Retired => self.retired += 1,
            Fact::HostFull => self.cache.host_full = true,
            Fact::CopyDone(index) => {
                self.requests[index].copy = HostCopy::Written;
                self.cache.done.push(index);
            }
            Fact::ReleaseThrows => self.throws = true,
        }
    }

    fn see_kv(&mut self, index: usize) {
        let with_row = !self.rules().row_apart();
        let request = &mut self.requests[index];
        request.kv = true;
        request.writing = false;
        if with_row {
            request.row = MetadataRow::Sound;
        }
        if self.rules().eviction == Eviction::WallClock {
            self.cache.touched.push(index);
        }
    }

    fn give_up(&mut self, index: usize, how: GiveUp) {
        match how {
            GiveUp::ThroughPoll => self.requests[index].failed = true,
            GiveUp::AtOnce => self.end(index, Phase::Dropped),
        }
    }

    /// Gives up all requests that do not run. Where pages wait for a fence they wait on all ranks, whatever each one's writer does.
    pub(super) fn abort_all(&mut self) {
        for index in self.queued(|request| request.phase.waits() || request.phase == Phase::Landed) {
            let waits =
                self.rules().fence == Fence::Waits && self.requests[index].phase == Phase::Transferring;
            if waits {
                self.requests[index].phase = Phase::Fencing;
            } else {
                self.end(index, Phase::Dropped);
            }
        }
    }
}
