//! When the leader starts a round. It decides only *when*: which collectives a round has follows from agreed values.

use std::time::{Duration, Instant};

/// Longest pause between two rounds while a slot is used: a safety net, not needed for progress.
const TICK: Duration = Duration::from_millis(1);
/// Pause between two rounds while all is idle: shorter than any peer's patience, so that a dead peer is noticed.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// How long a follower listens for the bell before it looks after its other business.
pub(super) const BELL_PATIENCE: Duration = Duration::from_millis(50);
/// How long a rank listens for a vote in its device's queue before it looks after its other business.
pub(super) const VOTE_PATIENCE: Duration = Duration::from_millis(50);
/// How long a follower waits for the bell before it enters the vote without one, where the leader's absence has a name.
const BELL_DEADLINE: Duration = Duration::from_secs(2);
/// How long a forward may take, the wait behind others included. Rounds go on beside it, or wait for it with a vote in its
/// queue, so nothing else would notice a device that hangs.
pub(super) const FORWARD_PATIENCE: Duration = Duration::from_secs(120);
/// How long the device may take for what is first in its queue, other ranks awaited. A peer that is gone is noticed sooner by a vote between
/// the hosts, or by the supervisor, which sees its process end.
pub(super) const FLIGHT_PATIENCE: Duration = Duration::from_secs(60);
/// How long a collective waits for a peer.
pub(super) const PEER_DEADLINE: Duration = Duration::from_secs(5);
/// Interval of the machine's clock.
const MACHINE_TICK: Duration = Duration::from_millis(100);
/// Ticks after which a handshake or a transfer has failed: a minute.
pub(super) const DEADLINE_TICKS: u32 = 600;
/// Interval of the reports to the front end.
const PROGRESS: Duration = Duration::from_millis(200);

/// As the counters have it.
pub(super) fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What the rank loop asks about time: when the next round is due, and what else is.
pub(super) trait Pace {
    /// Something happened that a round may act on: an input, or a decision that changed the agreed state.
    fn stir(&mut self);

    /// A round has ended. `changed`: its decision changed the agreed state.
    fn round_ended(&mut self, changed: bool);

    /// Time until the leader's next round is due; zero if it is now.
    fn due_in(&mut self, busy: bool) -> Duration;

    /// Whether the leader has been silent for longer than any heartbeat takes.
    fn overdue(&self) -> bool;

    /// Whether the machine's clock ticks.
    fn ticks(&mut self) -> bool;

    /// Whether the front end is due a report.
    fn reports(&mut self) -> bool;
}

/// The pace of the real clock.
#[derive(Debug)]
pub(super) struct Pacing {
    last_round: Instant,
    eager: bool,
    clock: Every,
    report: Every,
}

impl Pacing {
    pub(super) fn new() -> Self {
        let (clock, report) = (Every::new(MACHINE_TICK), Every::new(PROGRESS));
        Self { last_round: Instant::now(), eager: true, clock, report }
    }
}

impl Pace for Pacing {
    fn stir(&mut self) {
        self.eager = true;
    }

    fn round_ended(&mut self, changed: bool) {
        self.last_round = Instant::now();
        self.eager = changed;
    }

    fn due_in(&mut self, busy: bool) -> Duration {
        if self.eager {
            return Duration::ZERO;
        }
        let pause = if busy { TICK } else { HEARTBEAT };
        pause.saturating_sub(self.last_round.elapsed())
    }

    fn overdue(&self) -> bool {
        self.last_round.elapsed() >= BELL_DEADLINE
    }

    fn ticks(&mut self) -> bool {
        self.clock.is_due()
    }

    fn reports(&mut self) -> bool {
        self.report.is_due()
    }
}

/// Something that comes round at an interval.
#[derive(Debug)]
struct Every {
    interval: Duration,
    next: Instant,
}

impl Every {
    fn new(interval: Duration) -> Self {
        Self { interval, next: Instant::now() }
    }

    /// Whether it is time again.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next;
        if due {
            self.next = now + self.interval;
        }
        due
    }
}
