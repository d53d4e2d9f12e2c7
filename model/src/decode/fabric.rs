//! The KV fabric as one rank's slot meets it: what was asked of it, what it may still do. It is a ghost of the world: it never asks the
//! machine what it believes.

use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::ids::{Leg, PageId};

/// A handshake that a rank asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handshake {
    /// None.
    None,
    /// Not answered yet.
    Open(Leg),
    /// Answered.
    Done(Leg),
    /// Given up.
    Failed(Leg),
}

/// Whether the peer may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Writer {
    /// The page list is still queued on this rank.
    Queued,
    /// The peer may write at any moment.
    Writing,
}

/// A permission to write, from the decision that gives it to its fence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Whose KV.
    pub leg: Leg,
    /// Where it goes.
    pub pages: Vec<PageId>,
    /// Whether the peer may write.
    pub writer: Writer,
    /// Whether the rank asked for the fence.
    pub fencing: bool,
    /// Whether all pages were written.
    pub pages_written: bool,
    /// Whether the row was written.
    pub row_written: bool,
    /// Whether it broke.
    pub broken: bool,
}

impl Grant {
    /// Whether something may still land. `late`: also between the rank's asking for the fence and the fence.
    #[must_use]
    pub fn lands(&self, late: bool) -> bool {
        self.writer == Writer::Writing && !self.broken && (late || !self.fencing)
    }
}

/// One rank's slot at the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// The handshake.
    pub handshake: Handshake,
    /// An earlier attempt's handshake whose answer is still on its way.
    pub late: Option<Leg>,
    /// The grant.
    pub grant: Option<Grant>,
    /// The leg whose KV is whole here.
    pub whole: Option<Leg>,
}

impl Port {
    /// Nothing was asked for.
    pub const IDLE: Self = Self { handshake: Handshake::None, late: None, grant: None, whole: None };

    /// Whether this rank's handshake of `leg` is done.
    #[must_use]
    pub fn shook(&self, leg: Leg) -> bool {
        self.handshake == Handshake::Done(leg)
    }
}

impl Counters for Handshake {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        match self {
            Self::None => {}
            Self::Open(leg) | Self::Done(leg) | Self::Failed(leg) => leg.visit(visit),
        }
    }
}

impl Counters for Port {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.handshake.visit(visit);
        self.late.visit(visit);
        self.whole.visit(visit);
        if let Some(grant) = &mut self.grant {
            grant.leg.visit(visit);
        }
    }
}
