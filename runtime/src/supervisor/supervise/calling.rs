//! Ranks of launchers: they wait, are called, and are missed.

use std::sync::Arc;
use std::time::Instant;

use super::Supervisor;
use crate::supervisor::anteroom::{Call, Recruit};
use crate::supervisor::muster::Source;
use crate::supervisor::process::Exit;
use crate::supervisor::say;
use crate::wire::{Assignment, Seat};

impl Supervisor {
    /// Has a rank that waits take its seat.
    pub(super) fn call(&mut self, seat: Seat, assignment: Assignment, recruit: Recruit) {
        let (name, cut) = (seat.name, Arc::default());
        self.desk.process_started(name, recruit.enlistment.pid);
        self.ranks.started(name, None, Arc::clone(&cut));
        if recruit.call.send(Call::Serve { seat, assignment, cut }).is_err() {
            self.ranks.exited(name, Exit::Unlinked);
        }
    }

    /// Ends the streams of clients that have waited for launchers for long enough. Ranks may come all the same.
    pub(super) fn check_patience(&mut self) {
        let is_over = |until: &mut Instant| Instant::now() >= *until;
        let over = self.recovery.as_mut().and_then(|recovery| recovery.patience.take_if(is_over));
        if let (Some(_), Source::Called(_, anteroom, _)) = (over, &self.source) {
            let (absent, seconds) = (anteroom.absent(), anteroom.absence().as_secs());
            let reason = format!("the launchers did not start {absent} within {seconds} s of a loss");
            say(&format!("lockstep: {reason}; streams end, and ranks are waited for"));
            self.desk.suspend(&reason);
        }
    }

    /// Lets a rank of a launcher wait for an epoch, if one may follow.
    pub(super) fn enlist(&mut self, recruit: Recruit) {
        let Source::Called(_, anteroom, _) = &mut self.source else { return };
        say(&format!("lockstep: {}", anteroom.admit(recruit)));
        if self.leaving {
            anteroom.clear(|| Call::Leave);
        } else if !self.ranks.watch.is_whole() && self.recovery.is_none() {
            anteroom.clear(|| Call::Refuse {
                why: format!("no epoch follows: {}", self.restarts),
                for_good: false,
            });
        }
    }
}
