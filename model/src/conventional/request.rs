//! What one rank knows of one request: how far it is, which every rank should hold equal, and what this rank alone has seen.

use lockstep_spec::poll::KvPoll;

/// How far a request is, in the order of its life: in which of the rank's queues it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Not broadcast yet.
    Absent,
    /// In the handshake queue.
    Handshaking,
    /// In the handshake queue, `waiting_for_input`: it lacks only a page.
    Handshaken,
    /// In the transfer queue.
    Transferring,
    /// In the waiting queue: its KV is there.
    Landed,
    /// In a forward.
    Running,
    /// Finished.
    Done,
    /// Given up.
    Dropped,
}

impl Phase {
    /// Whether the request is in the handshake queue.
    #[must_use]
    pub fn shakes(self) -> bool {
        matches!(self, Self::Handshaking | Self::Handshaken)
    }

    /// Whether the request waits for the other group or for a page.
    #[must_use]
    pub fn waits(self) -> bool {
        self.shakes() || self == Self::Transferring
    }

    /// Whether the request holds a page.
    #[must_use]
    pub fn holds_page(self) -> bool {
        matches!(self, Self::Transferring | Self::Landed | Self::Running)
    }

    /// Whether nothing is left to do for the request.
    #[must_use]
    pub fn rests(self) -> bool {
        matches!(self, Self::Absent | Self::Done | Self::Dropped)
    }
}

/// One request on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// How far it is.
    pub phase: Phase,
    /// Whether this rank's receiver is `WaitingForInput`.
    pub shaken: bool,
    /// Whether its KV has landed on this rank.
    pub kv: bool,
    /// Whether its metadata row has landed on this rank.
    pub row: bool,
    /// Whether this rank's receiver has failed.
    pub failed: bool,
}

impl Request {
    /// A request that has not arrived.
    pub const ABSENT: Self =
        Self { phase: Phase::Absent, shaken: false, kv: false, row: false, failed: false };

    /// Ends the request: what the rank had seen of it is forgotten.
    pub fn end(&mut self, phase: Phase) {
        *self = Self { phase, ..Self::ABSENT };
    }

    /// Moves the request to the waiting queue: a failure of its receiver comes too late from now on.
    pub fn land(&mut self) {
        self.phase = Phase::Landed;
        self.failed = false;
    }

    /// Whether all that a forward reads has landed on this rank.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.kv && self.row
    }

    /// This rank's element of the handshake poll.
    #[must_use]
    pub fn handshake_poll(&self) -> KvPoll {
        match (self.phase.shakes(), self.failed, self.shaken) {
            (false, _, _) => KvPoll::Success,
            (true, true, _) => KvPoll::DeadlinePassed,
            (true, false, true) => KvPoll::WaitingForInput,
            (true, false, false) => KvPoll::Bootstrapping,
        }
    }

    /// This rank's element of the transfer poll, where `landed` is what counts as success.
    #[must_use]
    pub fn transfer_poll(&self, landed: bool) -> KvPoll {
        match (self.phase == Phase::Transferring, self.failed, landed) {
            (false, _, _) | (true, false, true) => KvPoll::Success,
            (true, true, _) => KvPoll::DeadlinePassed,
            (true, false, false) => KvPoll::Transferring,
        }
    }
}
