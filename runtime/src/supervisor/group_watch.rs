//! One group's way from whole to ended, without I/O: what was found, until when the rest may end by itself, the one report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::wire::Role;

/// How long a live rank may go without its connection before that is a finding of its own.
const WITHOUT_LINK: Duration = Duration::from_millis(500);

/// What the supervisor is to do for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Kill the ranks that are left: their time to end by themselves is over.
    Kill(Vec<u32>),
    /// Declare the group lost, for this reason.
    Lose(String),
    /// Print what was found, in the order of finding: the group has ended.
    Report(Vec<String>),
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Whole,
    Ending { kill_at: Instant },
    Killed,
    Reported,
}

/// The watch over one group.
#[derive(Debug)]
pub(crate) struct GroupWatch {
    role: Role,
    grace: Duration,
    phase: Phase,
    alive: BTreeSet<u32>,
    unlinked: BTreeMap<u32, Instant>,
    findings: Vec<String>,
}

impl GroupWatch {
    /// A watch over a group none of whose ranks is started; after a loss the others get `grace`.
    pub(crate) fn new(role: Role, grace: Duration) -> Self {
        let (alive, unlinked) = (BTreeSet::new(), BTreeMap::new());
        Self { role, grace, phase: Phase::Whole, alive, unlinked, findings: Vec::new() }
    }

    /// Notes a started rank.
    pub(crate) fn started(&mut self, rank: u32) {
        self.alive.insert(rank);
    }

    /// Whether nothing has been found.
    pub(crate) fn is_whole(&self) -> bool {
        self.phase == Phase::Whole
    }

    /// What was found, in the order of finding.
    pub(crate) fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Notes what ends the group.
    pub(crate) fn found(&mut self, finding: String, now: Instant) -> Option<Action> {
        self.findings.push(finding.clone());
        if !self.is_whole() {
            return None;
        }
        self.phase = Phase::Ending { kill_at: now + self.grace };
        Some(Action::Lose(finding))
    }

    /// Notes that a rank's process has ended and all that it said was heard.
    pub(crate) fn exited(&mut self, rank: u32) {
        self.alive.remove(&rank);
        self.unlinked.remove(&rank);
    }

    /// Notes that a rank's connection is closed; its process may just be ending, which will tell more.
    pub(crate) fn unlinked(&mut self, rank: u32, now: Instant) {
        if self.alive.contains(&rank) {
            self.unlinked.insert(rank, now);
        }
    }

    /// What is due at `now`.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Action> {
        match self.phase {
            Phase::Whole => self.tick_whole(now),
            Phase::Ending { .. } | Phase::Killed if self.alive.is_empty() => {
                self.take_report().map(Action::Report)
            }
            Phase::Ending { kill_at } if now >= kill_at => {
                self.phase = Phase::Killed;
                self.findings.push(self.overdue());
                Some(Action::Kill(self.alive.iter().copied().collect()))
            }
            Phase::Ending { .. } | Phase::Killed | Phase::Reported => None,
        }
    }

    /// What is to be reported and was not.
    pub(crate) fn take_report(&mut self) -> Option<Vec<String>> {
        match self.phase {
            Phase::Whole | Phase::Reported => None,
            Phase::Ending { .. } | Phase::Killed => {
                self.phase = Phase::Reported;
                Some(self.findings.clone())
            }
        }
    }

    fn tick_whole(&mut self, now: Instant) -> Option<Action> {
        let overdue =
            self.unlinked.iter().find(|(_, since)| now.saturating_duration_since(**since) >= WITHOUT_LINK);
        let (&rank, _) = overdue?;
        self.found(format!("{} rank {rank} closed its control connection and goes on", self.role), now)
    }

    fn overdue(&self) -> String {
        let ranks: Vec<String> = self.alive.iter().map(u32::to_string).collect();
        format!(
            "{} rank {} did not end within {} s and is killed",
            self.role,
            ranks.join(", "),
            self.grace.as_secs_f32()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(8);

    fn watch() -> (GroupWatch, Instant) {
        let mut watch = GroupWatch::new(Role::Decode, GRACE);
        watch.started(0);
        watch.started(1);
        (watch, Instant::now())
    }

    #[test]
    fn group_watch_gives_the_others_time_then_kills_then_reports() {
        let (mut watch, now) = watch();
        watch.exited(1);
        assert_eq!(watch.found("rank 1 died".into(), now), Some(Action::Lose("rank 1 died".into())));
        assert_eq!(watch.tick(now + GRACE / 2), None);
        assert_eq!(watch.tick(now + GRACE), Some(Action::Kill(vec![0])));
        assert_eq!(watch.tick(now + GRACE), None, "killed once");
        let later = now + GRACE + Duration::from_secs(1);
        watch.exited(0);
        let overdue = String::from("decode rank 0 did not end within 8 s and is killed");
        assert_eq!(watch.tick(later), Some(Action::Report(vec!["rank 1 died".into(), overdue])));
        assert_eq!(watch.tick(later + GRACE), None, "reported once");
    }

    #[test]
    fn group_watch_reports_without_a_kill_when_all_end_in_time() {
        let (mut watch, now) = watch();
        watch.exited(1);
        watch.found("rank 1 died".into(), now);
        watch.exited(0);
        assert_eq!(watch.found("rank 0 ended".into(), now), None, "lost once");
        assert_eq!(watch.tick(now), Some(Action::Report(vec!["rank 1 died".into(), "rank 0 ended".into()])));
    }

    #[test]
    fn group_watch_waits_for_the_exit_behind_a_closed_connection() {
        let (mut ending, now) = watch();
        ending.unlinked(1, now);
        ending.exited(1);
        assert_eq!(ending.tick(now + WITHOUT_LINK), None, "the exit tells it");
        let (mut living, now) = watch();
        living.unlinked(1, now);
        assert_eq!(living.tick(now), None);
        assert!(matches!(living.tick(now + WITHOUT_LINK), Some(Action::Lose(_))));
    }
}
