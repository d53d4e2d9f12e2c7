//! How often a peer is looked for, and the clock that says so to spec's client.

use std::time::{Duration, Instant};

use lockstep_spec::handshake;

/// How a handshake is tried again, to within how late a thread wakes.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// The least time between the first two attempts to connect; each time after it is twice the one before, up to `interval`.
    pub first: Duration,
    /// The least time between any later two.
    pub interval: Duration,
    /// How many attempts a hello outlives; it fails `count` intervals after it was made, or sooner by what an attempt to connect had taken
    /// just then, a second at most.
    pub count: u32,
}

impl Retry {
    /// How long a tick is: the first pause.
    fn tick(self) -> Duration {
        self.first.max(Duration::from_millis(1))
    }

    /// The same in ticks.
    pub(super) fn in_ticks(self) -> handshake::Retry {
        let ticks = |time: Duration| {
            let ticks = time.as_nanos().div_ceil(self.tick().as_nanos());
            u32::try_from(ticks).unwrap_or(u32::MAX)
        };
        handshake::Retry {
            first_ticks: 1,
            interval_ticks: ticks(self.interval),
            // The first tick of a hello may come at once.
            patience_ticks: ticks(self.interval.saturating_mul(self.count)).saturating_add(1),
        }
    }
}

/// A clock that ticks.
pub(super) struct Clock {
    tick: Duration,
    /// When it ticks next.
    pub(super) next: Instant,
}

impl Clock {
    /// One whose first tick is now.
    pub(super) fn new(retry: Retry) -> Self {
        Self { tick: retry.tick(), next: Instant::now() }
    }

    /// How often it has ticked since it was asked last.
    pub(super) fn ticks(&mut self) -> u32 {
        let late = Instant::now().checked_duration_since(self.next);
        let Some(late) = late else { return 0 };
        let ticks =
            u32::try_from(late.as_nanos() / self.tick.as_nanos()).unwrap_or(u32::MAX).saturating_add(1);
        self.next += self.tick.saturating_mul(ticks);
        ticks
    }
}
