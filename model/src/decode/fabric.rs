//! The KV fabric as one rank's slot meets it: what was asked of it, what it may still do. It is a ghost of the world: it never asks the
//! machine what it believes.

use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::evidence::LegFact;
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

impl Handshake {
    /// The leg that it is of.
    #[must_use]
    pub fn leg(&self) -> Option<Leg> {
        match self {
            Self::None => None,
            Self::Open(leg) | Self::Done(leg) | Self::Failed(leg) => Some(*leg),
        }
    }
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

    /// The rank asks for a handshake. `late`: an earlier one's answer may still arrive.
    pub fn shake(&mut self, leg: Leg, late: bool) {
        if let Handshake::Open(earlier) = self.handshake {
            self.late = Some(earlier).filter(|_| late);
        }
        self.handshake = Handshake::Open(leg);
        self.whole = None;
    }

    /// The handshake is stopped; an answer that is on its way may still arrive if `late`.
    pub fn withdraw(&mut self, leg: Leg, late: bool) {
        if self.handshake == Handshake::Open(leg) && late {
            self.late = Some(leg);
        }
        self.handshake = Handshake::None;
    }

    /// The rank publishes a leg's pages.
    pub fn publish(&mut self, leg: Leg, pages: Vec<PageId>) {
        self.grant = Some(Grant {
            leg,
            pages,
            writer: Writer::Queued,
            fencing: false,
            pages_written: false,
            row_written: false,
            broken: false,
        });
        self.whole = None;
    }

    /// The rank asks for the fence.
    pub fn fence(&mut self) {
        if let Some(grant) = &mut self.grant {
            grant.fencing = true;
        }
    }

    /// Whether a fact of a leg may reach the rank, with all that may fail and be late.
    #[must_use]
    pub fn allows(&self, leg: Leg, fact: LegFact) -> bool {
        let grant = self.grant.as_ref().filter(|grant| grant.leg == leg);
        match fact {
            LegFact::HandshakeDone | LegFact::HandshakeFailed => {
                self.late == Some(leg) || self.handshake == Handshake::Open(leg)
            }
            LegFact::Published => grant.is_some_and(|grant| grant.writer == Writer::Queued),
            LegFact::PagesLanded => grant.is_some_and(|grant| grant.lands(true) && !grant.pages_written),
            LegFact::RowLanded(_) => grant.is_some_and(|grant| grant.lands(true) && !grant.row_written),
            LegFact::TransferFailed => {
                grant.is_some_and(|grant| grant.lands(true) && !(grant.pages_written && grant.row_written))
            }
            LegFact::Fenced => grant.is_some_and(|grant| grant.fencing),
        }
    }

    /// Notes that a fact has reached the rank.
    pub fn took_place(&mut self, leg: Leg, fact: LegFact) {
        if fact == LegFact::Fenced {
            self.grant = None;
        }
        if fact == LegFact::HandshakeDone || fact == LegFact::HandshakeFailed {
            return self.answered(leg, fact);
        }
        let Some(grant) = &mut self.grant else { return };
        match fact {
            LegFact::Published => grant.writer = Writer::Writing,
            LegFact::PagesLanded => grant.pages_written = true,
            LegFact::RowLanded(row) if row.sound && row.echo == leg => grant.row_written = true,
            LegFact::RowLanded(_) | LegFact::TransferFailed => grant.broken = true,
            LegFact::HandshakeDone | LegFact::HandshakeFailed | LegFact::Fenced => {}
        }
        if grant.pages_written && grant.row_written {
            self.whole = Some(grant.leg);
        }
    }

    fn answered(&mut self, leg: Leg, fact: LegFact) {
        if self.late == Some(leg) {
            self.late = None;
        } else if fact == LegFact::HandshakeDone {
            self.handshake = Handshake::Done(leg);
        } else {
            self.handshake = Handshake::Failed(leg);
        }
    }

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
