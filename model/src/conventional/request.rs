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
    /// In the transfer queue, given up: its page waits until nothing can write there.
    Fencing,
    /// In the waiting queue: its KV is there.
    Landed,
    /// In a forward.
    Running,
    /// In the retracted queue: it gave its pages up.
    Retracted,
    /// Finished; its pages are being copied to the host.
    Copying,
    /// Finished; its pages are in the prefix cache.
    Cached,
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

    /// Whether the request is in the transfer queue.
    #[must_use]
    pub fn transfers(self) -> bool {
        matches!(self, Self::Transferring | Self::Fencing)
    }

    /// Whether the request waits for the other group or for a page.
    #[must_use]
    pub fn waits(self) -> bool {
        self.shakes() || self == Self::Transferring
    }

    /// Whether the request holds a page.
    #[must_use]
    pub fn holds_page(self) -> bool {
        matches!(
            self,
            Self::Transferring | Self::Fencing | Self::Landed | Self::Running | Self::Copying | Self::Cached
        )
    }

    /// Whether nothing is left to do for the request.
    #[must_use]
    pub fn rests(self) -> bool {
        matches!(self, Self::Absent | Self::Cached | Self::Done | Self::Dropped)
    }
}

/// The metadata row of a request on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetadataRow {
    /// Not there.
    Missing,
    /// As it should be.
    Sound,
    /// Of another room.
    OtherRoom,
    /// Its checksum does not match.
    Corrupt,
}

/// The copy of a finished request's pages to the host of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostCopy {
    /// None was asked for.
    None,
    /// The host of this rank had no room.
    Refused,
    /// Under way.
    Writing,
    /// Its device event has fired.
    Written,
}

/// One request on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// How far it is.
    pub phase: Phase,
    /// Tokens of its output.
    pub tokens: u8,
    /// Whether it holds the page of its next token too.
    pub grown: bool,
    /// Whether this rank's receiver is `WaitingForInput`.
    pub shaken: bool,
    /// Whether the other group may still write into its page on this rank.
    pub writing: bool,
    /// Whether its KV has landed on this rank.
    pub kv: bool,
    /// Its metadata row on this rank.
    pub row: MetadataRow,
    /// Whether this rank's receiver has failed.
    pub failed: bool,
    /// Its copy to the host of this rank.
    pub copy: HostCopy,
}

impl Request {
    /// A request that has not arrived.
    pub const ABSENT: Self = Self {
        phase: Phase::Absent,
        tokens: 0,
        grown: false,
        shaken: false,
        writing: false,
        kv: false,
        row: MetadataRow::Missing,
        failed: false,
        copy: HostCopy::None,
    };

    /// Ends the request: what the rank had seen of it is forgotten, but not what may still be written.
    pub fn end(&mut self, phase: Phase) {
        *self = Self { phase, writing: self.writing, ..Self::ABSENT };
    }

    /// Moves the request to the waiting queue: a failure of its receiver comes too late from now on.
    pub fn land(&mut self) {
        self.phase = Phase::Landed;
        self.failed = false;
    }

    /// Pages that it holds.
    #[must_use]
    pub fn pages(&self) -> usize {
        if self.phase.holds_page() { 1 + usize::from(self.grown) } else { 0 }
    }

    /// Whether all that a forward reads has landed on this rank.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.kv && self.row != MetadataRow::Missing
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
}
