//! How often a lost deployment is started anew, and how soon, without I/O.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// The time within which restarts are counted.
const WINDOW: Duration = Duration::from_secs(600);

/// Pause before an epoch that follows one which never served; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The budget of restarts.
#[derive(Debug)]
pub(crate) struct Restarts {
    allowed: u32,
    taken: VecDeque<Instant>,
    barren: u32,
}

impl Restarts {
    /// A budget of `allowed` restarts within ten minutes.
    pub(crate) fn new(allowed: u32) -> Self {
        Self { allowed, taken: VecDeque::new(), barren: 0 }
    }

    /// Takes one restart for an epoch that is lost, and `served` or not: how long to wait before it; none if none is left.
    pub(crate) fn take(&mut self, served: bool, now: Instant) -> Option<Duration> {
        let recent = |taken: &Instant| now.saturating_duration_since(*taken) < WINDOW;
        self.taken.retain(recent);
        if u32::try_from(self.taken.len()).is_ok_and(|taken| taken < self.allowed) {
            self.taken.push_back(now);
            self.barren = if served { 0 } else { self.barren.saturating_add(1) };
            return Some(pause(self.barren));
        }
        None
    }
}

/// No pause after an epoch that served: its clients wait. An epoch that can not form is not helped by haste.
fn pause(barren: u32) -> Duration {
    let doublings = barren.checked_sub(1).map(|doublings| 2_u32.saturating_pow(doublings));
    doublings.map_or(Duration::ZERO, |factor| FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE))
}

impl fmt::Display for Restarts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (taken, allowed) = (self.taken.len(), self.allowed);
        write!(formatter, "{taken} of {allowed} restarts within {} s are used (--restarts)", WINDOW.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_bounded_within_their_window() {
        let (mut restarts, now) = (Restarts::new(2), Instant::now());
        assert_eq!(restarts.take(true, now), Some(Duration::ZERO));
        assert_eq!(restarts.take(true, now + WINDOW / 2), Some(Duration::ZERO));
        assert_eq!(restarts.take(true, now + WINDOW / 2), None);
        assert_eq!(restarts.take(true, now + WINDOW), Some(Duration::ZERO), "the first is out of the window");
        assert_eq!(restarts.take(true, now + WINDOW), None);
        assert_eq!(Restarts::new(0).take(true, now), None);
    }

    #[test]
    fn restarts_of_what_can_not_form_are_slower_and_slower() {
        let (mut restarts, now) = (Restarts::new(100), Instant::now());
        let mut take = |served| restarts.take(served, now).unwrap();
        assert_eq!([take(false), take(false), take(false)], [1, 2, 4].map(|factor| FIRST_PAUSE * factor));
        assert_eq!((0..40).map(|_| take(false)).max(), Some(LONGEST_PAUSE));
        assert_eq!(take(true), Duration::ZERO);
    }
}
