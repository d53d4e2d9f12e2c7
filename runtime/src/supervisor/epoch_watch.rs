//! One epoch's way from whole to gone, without I/O: what was found, until when its ranks may end by themselves, what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::wire::{RankName, Role};

/// How long a live rank may go without its connection before that is a finding of its own.
const WITHOUT_LINK: Duration = Duration::from_millis(500);

/// Time for a killed process to be gone.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// What the supervisor is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// End the epoch: this group is lost, for this reason.
    End(Role, String),
    /// Nothing of the epoch is left.
    Gone,
    /// Kill these ranks: their time to end by themselves is over.
    Kill(Vec<RankName>),
    /// Give up on these: they were killed, and are there all the same.
    Stuck(Vec<RankName>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Whole,
    Ending { kill_at: Instant },
    Killed { at: Instant },
    Stuck,
    Gone,
}

/// The watch over one epoch.
#[derive(Debug)]
pub(crate) struct EpochWatch {
    grace: Duration,
    phase: Phase,
    alive: BTreeSet<RankName>,
    unlinked: BTreeMap<RankName, Instant>,
    lost: Option<Role>,
    findings: Vec<String>,
}

impl EpochWatch {
    /// A watch over an epoch none of whose ranks is started; after a loss the others get `grace`.
    pub(crate) fn new(grace: Duration) -> Self {
        let (alive, unlinked) = (BTreeSet::new(), BTreeMap::new());
        Self { grace, phase: Phase::Whole, alive, unlinked, lost: None, findings: Vec::new() }
    }

    /// A watch over nothing: no epoch has begun.
    pub(crate) fn over() -> Self {
        Self { phase: Phase::Gone, ..Self::new(Duration::ZERO) }
    }

    /// Notes a started rank.
    pub(crate) fn started(&mut self, rank: RankName) {
        self.alive.insert(rank);
    }

    /// Whether nothing has been found, and nobody was asked to leave.
    pub(crate) fn is_whole(&self) -> bool {
        self.phase == Phase::Whole
    }

    /// Whether nothing of the epoch is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.phase == Phase::Gone
    }

    /// The ranks that are there although they were killed; none while there is hope.
    pub(crate) fn stuck(&self) -> Option<Vec<String>> {
        (self.phase == Phase::Stuck).then(|| self.alive.iter().map(RankName::to_string).collect())
    }

    /// The group whose loss ended the epoch.
    pub(crate) fn lost(&self) -> Option<Role> {
        self.lost
    }

    /// What was found, in the order of finding.
    pub(crate) fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Notes what ends a group, and with it the epoch.
    pub(crate) fn found(&mut self, role: Role, finding: String, now: Instant) -> Option<Action> {
        self.findings.push(finding.clone());
        if !self.is_whole() {
            return None;
        }
        self.lost = Some(role);
        self.phase = Phase::Ending { kill_at: now + self.grace };
        Some(Action::End(role, finding))
    }

    /// Notes that all ranks are to be gone by `kill_at`, whatever has been found.
    pub(crate) fn leave_by(&mut self, kill_at: Instant) {
        self.phase = match self.phase {
            Phase::Whole => Phase::Ending { kill_at },
            Phase::Ending { kill_at: earlier } => Phase::Ending { kill_at: earlier.min(kill_at) },
            Phase::Killed { .. } | Phase::Stuck | Phase::Gone => self.phase,
        };
    }

    /// Notes that a rank's process has ended and all that it said was heard.
    pub(crate) fn exited(&mut self, rank: RankName) {
        self.alive.remove(&rank);
        self.unlinked.remove(&rank);
    }

    /// Notes that a rank's connection is closed; its process may just be ending, which will tell more.
    pub(crate) fn unlinked(&mut self, rank: RankName, now: Instant) {
        if self.alive.contains(&rank) {
            self.unlinked.insert(rank, now);
        }
    }

    /// What is due at `now`.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Action> {
        match self.phase {
            Phase::Whole => self.tick_whole(now),
            Phase::Ending { .. } | Phase::Killed { .. } | Phase::Stuck if self.alive.is_empty() => {
                self.phase = Phase::Gone;
                Some(Action::Gone)
            }
            Phase::Ending { kill_at } if now >= kill_at => {
                self.phase = Phase::Killed { at: now };
                self.findings.push(format!("{} did not end in time and is killed", names(&self.alive)));
                Some(Action::Kill(self.alive.iter().copied().collect()))
            }
            Phase::Killed { at } if now >= at + KILL_DEADLINE => {
                self.phase = Phase::Stuck;
                self.findings.push(format!("{} is there even after SIGKILL", names(&self.alive)));
                Some(Action::Stuck(self.alive.iter().copied().collect()))
            }
            Phase::Ending { .. } | Phase::Killed { .. } | Phase::Stuck | Phase::Gone => None,
        }
    }

    fn tick_whole(&mut self, now: Instant) -> Option<Action> {
        let overdue =
            self.unlinked.iter().find(|(_, since)| now.saturating_duration_since(**since) >= WITHOUT_LINK);
        let (&rank, _) = overdue?;
        self.found(rank.role, format!("{rank} closed its control connection and goes on"), now)
    }
}

fn names(ranks: &BTreeSet<RankName>) -> String {
    ranks.iter().map(RankName::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(8);
    const DECODE: RankName = RankName { role: Role::Decode, rank: 0 };
    const PREFILL: RankName = RankName { role: Role::Prefill, rank: 0 };

    fn watch() -> (EpochWatch, Instant) {
        let mut watch = EpochWatch::new(GRACE);
        watch.started(DECODE);
        watch.started(PREFILL);
        (watch, Instant::now())
    }

    fn lost() -> (EpochWatch, Instant) {
        let (mut watch, now) = watch();
        watch.exited(PREFILL);
        let end = watch.found(Role::Prefill, "it died".into(), now);
        assert_eq!(end, Some(Action::End(Role::Prefill, "it died".into())));
        (watch, now)
    }

    #[test]
    fn epoch_watch_gives_the_others_time_then_kills_then_is_gone() {
        let (mut watch, now) = lost();
        assert_eq!(watch.tick(now + GRACE / 2), None);
        assert_eq!(watch.tick(now + GRACE), Some(Action::Kill(vec![DECODE])));
        assert_eq!(watch.tick(now + GRACE), None, "killed once");
        watch.exited(DECODE);
        assert_eq!(watch.tick(now + GRACE), Some(Action::Gone));
        assert_eq!(watch.tick(now + GRACE * 2), None, "gone once");
        assert!(watch.is_gone());
        assert_eq!(watch.findings(), ["it died", "decode rank 0 did not end in time and is killed"]);
    }

    #[test]
    fn epoch_watch_ends_an_epoch_once_and_without_a_kill_when_all_go_in_time() {
        let (mut watch, now) = lost();
        assert_eq!(watch.found(Role::Decode, "it went".into(), now), None, "ended once");
        watch.exited(DECODE);
        assert_eq!(watch.tick(now), Some(Action::Gone));
        assert_eq!((watch.findings().len(), watch.lost()), (2, Some(Role::Prefill)));
    }

    #[test]
    fn epoch_watch_does_not_wait_for_ever_for_what_can_not_be_killed() {
        let (mut watch, now) = lost();
        let killed = now + GRACE;
        assert_eq!(watch.tick(killed), Some(Action::Kill(vec![DECODE])));
        assert_eq!(watch.tick(killed + KILL_DEADLINE), Some(Action::Stuck(vec![DECODE])));
        assert_eq!(watch.tick(killed + KILL_DEADLINE * 2), None);
        assert!(!watch.is_gone());
    }

    #[test]
    fn epoch_watch_kills_what_does_not_leave_and_finds_no_loss_in_that() {
        let (mut watch, now) = watch();
        watch.leave_by(now + GRACE);
        watch.exited(PREFILL);
        watch.leave_by(now);
        assert_eq!(watch.tick(now), Some(Action::Kill(vec![DECODE])), "the earlier order counts");
        assert_eq!(watch.lost(), None);
    }

    #[test]
    fn epoch_watch_waits_for_the_exit_behind_a_closed_connection() {
        let (mut ending, now) = watch();
        ending.unlinked(DECODE, now);
        ending.exited(DECODE);
        assert_eq!(ending.tick(now + WITHOUT_LINK), None, "the exit tells it");
        let (mut living, now) = watch();
        living.unlinked(DECODE, now);
        assert_eq!(living.tick(now), None);
        assert!(matches!(living.tick(now + WITHOUT_LINK), Some(Action::End(Role::Decode, _))));
    }
}
