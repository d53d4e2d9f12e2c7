//! Run or idle: which requests a conventional rank puts into a forward, and how it reads what came out.

use crate::conventional::rank::{ConventionalRank, Effects, Launch, Place, own_landed};
use crate::conventional::request::Phase;
use crate::conventional::rules::{Ahead, DrainEntry, Eviction, RowOrder, Run, Sampling};
use crate::conventional::site::Site;
use lockstep_spec::program::Effect;

impl ConventionalRank {
    pub(super) fn run_or_idle(&mut self, effects: &mut Effects) {
        let batch = self.batch();
        for index in &batch {
            self.requests[*index].phase = Phase::Running;
        }
        if !batch.is_empty() {
            effects.push(Effect::Local(Launch(batch.clone())));
            effects.push(Effect::Enter(Site::launch(batch.len())));
        }
        self.deaf = self.deafened(&batch);
        if self.rules().order != RowOrder::Uncompared {
            self.rows.clone_from(&batch);
        }
        self.unread.push(batch);
        self.place = Place::Requests;
    }

    pub(super) fn batch(&self) -> Vec<usize> {
        let mut batch = match self.rules().run {
            Run::ReducedLanded => self.queued(|request| request.phase == Phase::Landed),
            Run::OwnLanded => self.queued(|request| request.phase == Phase::Landed || own_landed(request)),
            Run::LeaderBit if self.batch_said => {
                self.queued(|request| matches!(request.phase, Phase::Transferring | Phase::Landed))
            }
            Run::LeaderBit => Vec::new(),
        };
        if self.rules().ahead != Ahead::Never {
            batch.extend(self.queued(|request| request.phase == Phase::Running));
            batch.sort_unstable();
        }
        // A hash set's order differs from process to process; here, between odd ranks and even ones.
        if self.rules().order == RowOrder::ByHash && self.index % 2 == 1 {
            batch.reverse();
        }
        batch
    }

    /// Reads the results of the oldest batch, if its forward has retired.
    pub(super) fn read_oldest(&mut self) -> bool {
        let ran = self.unread.first().is_some_and(|batch| !batch.is_empty());
        if ran && self.retired == 0 {
            return false;
        }
        self.retired -= usize::from(ran);
        for index in self.unread.remove(0) {
            // A surplus row finds its request at its end.
            if self.requests[index].phase == Phase::Running {
                self.take_token(index);
            }
        }
        true
    }

    fn take_token(&mut self, index: usize) {
        let drifted = core::mem::take(&mut self.drifted);
        let request = &mut self.requests[index];
        request.tokens += 1;
        let ended = match self.variant.rules().sampling {
            Sampling::OneToken => true,
            Sampling::Shared => request.tokens > 1,
            Sampling::Own => request.tokens > 1 || drifted,
        };
        if ended {
            self.finish(index);
        } else {
            request.phase = Phase::Landed;
        }
    }

    fn finish(&mut self, index: usize) {
        let rules = self.rules();
        match (rules.drain, rules.eviction) {
            (DrainEntry::Absent, Eviction::Uncached) => self.end(index, Phase::Done),
            (DrainEntry::Absent, Eviction::LogicalClock | Eviction::WallClock) => self.enter_cache(index),
            (DrainEntry::Always | DrainEntry::UnlessOwnEmpty | DrainEntry::WhenOwnEventFired, _) => {
                self.copy_to_host(index);
            }
        }
    }
}
