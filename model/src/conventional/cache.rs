//! Host copies and prefix cache of a conventional rank.

use crate::conventional::rank::{ConventionalRank, Effects, Place};
use crate::conventional::request::{HostCopy, Phase};
use crate::conventional::rules::{DrainEntry, Drained, Eviction};
use crate::conventional::site::Site;
use lockstep_spec::program::Effect;

impl ConventionalRank {
    /// Asks for the copy of a finished request's pages. One that the host refuses counts as done: it holds nobody up.
    pub(super) fn copy_to_host(&mut self, index: usize) {
        self.end(index, Phase::Copying);
        self.cache.issued.push(index);
        self.requests[index].copy = if self.cache.host_full {
            self.cache.done.push(index);
            HostCopy::Refused
        } else {
            HostCopy::Writing
        };
    }

    pub(super) fn turn_drain(&mut self, effects: &mut Effects) {
        if !self.drains() {
            self.place = Place::RunOrIdle;
            return;
        }
        let done = match self.rules().drained {
            Drained::InOrderOfIssue => self.done_in_order(),
            Drained::InOwnOrder => self.cache.done.len(),
        };
        effects.push(Effect::Enter(Site::CacheDrain.post(vec![done as u64])));
    }

    pub(super) fn drains(&self) -> bool {
        let copy = |index: &usize| self.requests[*index].copy;
        match self.rules().drain {
            DrainEntry::Absent => false,
            DrainEntry::Always => true,
            DrainEntry::UnlessOwnEmpty => {
                self.cache.issued.iter().map(copy).any(|copy| copy != HostCopy::Refused)
            }
            DrainEntry::WhenOwnEventFired => self.cache.issued.first().map(copy) == Some(HostCopy::Written),
        }
    }

    fn done_in_order(&self) -> usize {
        self.cache.issued.iter().take_while(|index| self.cache.done.contains(index)).count()
    }

    /// As many copies as every rank has done are over.
    pub(super) fn take_drained(&mut self, words: &[u64]) {
        let in_order = match self.rules().drained {
            Drained::InOrderOfIssue => &self.cache.issued,
            Drained::InOwnOrder => &self.cache.done,
        };
        let count = words.first().copied().unwrap_or(0);
        let drained: Vec<usize> = (0..count).zip(in_order).map(|(_, index)| *index).collect();
        self.cache.issued.retain(|index| !drained.contains(index));
        self.cache.done.retain(|index| !drained.contains(index));
        drained.into_iter().for_each(|index| self.end(index, Phase::Done));
        self.place = Place::RunOrIdle;
    }

    /// Notes a landing that the reduced poll has told, for a clock that counts those.
    pub(super) fn touch_landed(&mut self, index: usize) {
        if self.rules().eviction == Eviction::LogicalClock {
            self.cache.touched.push(index);
        }
    }

    /// Keeps a finished request's pages in the prefix cache; with two there, the one that was touched first leaves.
    pub(super) fn enter_cache(&mut self, index: usize) {
        self.end(index, Phase::Cached);
        let cached = self.queued(|request| request.phase == Phase::Cached);
        let oldest = self.cache.touched.iter().copied().find(|touched| cached.contains(touched));
        if let Some(evicted) = oldest.filter(|_| cached.len() > 1) {
            self.end(evicted, Phase::Done);
            self.cache.touched.retain(|touched| *touched != evicted);
        }
    }
}
