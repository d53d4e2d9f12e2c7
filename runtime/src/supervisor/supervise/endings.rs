//! How an epoch ends, and what follows it.

use std::time::Instant;

use super::{Recovery, Supervisor};
use crate::supervisor::epoch_watch::Action;
use crate::supervisor::muster::Source;
use crate::supervisor::say;
use crate::wire::{RankName, Role};

impl Supervisor {
    pub(super) fn found(&mut self, role: Role, finding: String) {
        if let Some(action) = self.ranks.watch.found(role, finding, Instant::now()) {
            self.perform(action);
        }
    }

    pub(super) fn perform(&mut self, action: Action) {
        match action {
            Action::End(role, reason) => self.end(role, reason),
            Action::Gone => self.gone(),
            Action::Kill(ranks) => self.ranks.kill(&ranks),
            Action::Stuck(ranks) => self.stuck(&ranks),
        }
    }

    /// Ends the epoch. The lost group's ranks notice by themselves and say whom they miss; the other group is asked to leave.
    fn end(&mut self, lost: Role, reason: String) {
        if !self.recovers {
            return;
        }
        let now = Instant::now();
        let follows = !self.leaving;
        let pause = follows.then(|| self.restarts.take(self.ranks.serves, now)).flatten();
        let before = self.recovery.unwrap_or(Recovery {
            lost_at: Some(now),
            begin_at: now,
            patience: self.source.absence().map(|absence| now + absence),
        });
        self.recovery = pause.map(|pause| Recovery { begin_at: now + pause, ..before });
        match self.recovery {
            Some(_) => self.desk.end_epoch(reason),
            None => self.desk.lose(reason),
        }
        self.desk.dismiss(match lost {
            Role::Decode => Role::Prefill,
            Role::Prefill => Role::Decode,
        });
    }

    /// Tells what ended the epoch, and what follows.
    fn gone(&mut self) {
        let Some(lost) = self.ranks.watch.lost().filter(|_| self.recovers) else { return };
        let (epoch, findings) = (self.ranks.epoch.0, self.ranks.watch.findings());
        say(&format!(
            "lockstep: the {lost} group is lost, and epoch {epoch} with it:\n  {}",
            findings.join("\n  ")
        ));
        self.desk.explain(findings.join("; "));
        if let Source::Started(_, nursery) = &self.source {
            nursery.keep_evidence();
        }
        if self.leaving {
            return;
        }
        let restarts = &self.restarts;
        match self.recovery {
            Some(_) => say(&format!("lockstep: epoch {} follows; {restarts}", epoch + 1)),
            None => {
                say(&format!("lockstep: no epoch follows: {restarts}; stop this program and start it anew"))
            }
        }
    }

    /// Processes that can not be killed may still write into the memory of others: nothing is started beside them.
    fn stuck(&mut self, ranks: &[RankName]) {
        let names: Vec<String> = ranks.iter().map(RankName::to_string).collect();
        let reason = format!("{} can not be killed, so no epoch may follow", names.join(", "));
        say(&format!("lockstep: {reason}; reset what holds these processes, and start this program anew"));
        self.recovery = None;
        self.desk.lose(reason);
    }
}
