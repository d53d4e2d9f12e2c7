//! A rank's goal: the round that it is to come to, and for how long it has not. Without I/O; time is ticks.
//!
//! Rounds go on whether a group is busy, idle or paused, so a rank that lives comes to the next one soon, however slow its forwards; but for a
//! vote in the devices' queue, which waits for the forward ahead of it, and the rank says so. What a hang looks like from outside is a goal that
//! is not reached while the rank still reports. A forward that hangs is its own rank's to notice.

use std::time::Instant;

/// The next round that one rank is to come to.
#[derive(Debug)]
pub(crate) struct Goal {
    round: u64,
    ticks: u32,
    /// When it was set. For messages only: a front end that was stopped itself must not take its own sleep for the rank's.
    set: Instant,
}

impl Goal {
    /// The goal of a rank that has told nothing.
    pub(crate) fn new() -> Self {
        Self { round: 0, ticks: 0, set: Instant::now() }
    }

    /// Counts a tick of a rank that is at `round`, in a group whose furthest rank is at `furthest`. Once there, it is to come to where
    /// that one is, or one further if it is the furthest itself. Nothing is counted while it awaits a forward of its own device.
    pub(crate) fn tick(&mut self, round: u64, furthest: u64, awaits_forward: bool) {
        match round >= self.round || awaits_forward {
            true => *self = Self { round: furthest.max(round.saturating_add(1)), ..Self::new() },
            false => self.ticks = self.ticks.saturating_add(1),
        }
    }

    /// What is wrong, if the goal has been missed for more than `limit` ticks: somebody of the group was there, or there is work to do.
    pub(crate) fn missed(&self, furthest: u64, has_work: bool, limit: u32) -> Option<String> {
        let was_reached = furthest >= self.round;
        if self.ticks <= limit || !(was_reached || has_work) {
            return None;
        }
        let (round, seconds) = (self.round, self.set.elapsed().as_secs_f32());
        let why = if was_reached { "where a peer of it has been" } else { "although there is work" };
        Some(format!("has not come to round {round} for {seconds:.1} s, {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u32 = 3;

    /// A goal after ticks in which its rank told these rounds, and the furthest of its group those.
    fn after(ticks: impl IntoIterator<Item = (u64, u64)>) -> Goal {
        let mut goal = Goal::new();
        ticks.into_iter().for_each(|(round, furthest)| goal.tick(round, furthest, false));
        goal
    }

    #[test]
    fn goal_is_missed_by_a_group_that_stands_still_only_if_there_is_work() {
        let stands = after([(7, 7); 5]);
        assert!(stands.missed(7, true, LIMIT).is_some_and(|why| why.contains("round 8")));
        assert_eq!(stands.missed(7, false, LIMIT), None, "idle");
        assert_eq!(after([(7, 7); 4]).missed(7, true, LIMIT), None, "not for long enough");
    }

    #[test]
    fn goal_waits_for_a_forward_that_a_vote_is_queued_behind() {
        let mut goal = after([(7, 7); 4]);
        goal.tick(7, 7, true);
        goal.tick(7, 7, false);
        assert_eq!(goal.missed(7, true, LIMIT), None);
        (0..4).for_each(|_| goal.tick(7, 7, false));
        assert!(goal.missed(7, true, LIMIT).is_some());
    }

    #[test]
    fn goal_is_missed_by_a_rank_that_drifts_even_without_work() {
        let stays = after((7..20).map(|furthest| (7, furthest)));
        assert!(stays.missed(19, false, LIMIT).is_some_and(|why| why.contains("a peer")));
        let falls_behind = after((7..20).map(|round| (round, round * 10)));
        assert!(
            falls_behind.missed(190, false, LIMIT).is_some(),
            "it goes on, but never comes to where others are"
        );
    }

    #[test]
    fn goal_is_reached_by_the_slow_and_by_reports_that_are_old() {
        let slow = after((0..40).map(|tick| (tick / 3, tick / 3)));
        assert_eq!(slow.missed(13, true, LIMIT), None);
        let late_reports = after((0..40).map(|tick| (tick.max(2) * 1000 - 2000, tick * 1000)));
        assert_eq!(late_reports.missed(39_000, true, LIMIT), None);
    }
}
