//! The decode group as the prefill group meets it: which legs it wants, and what each of its ranks has said to its peer. A ghost of the
//! world: it never asks the machine what it believes.

use lockstep_spec::counters::{Counter, Counters, visit_peer};
use lockstep_spec::ids::{Attempt, Epoch, Generation, Leg, PageId, RequestId, SlotIndex};
use lockstep_spec::prefill::evidence::WriteFact;

/// What one decode rank has said of a leg to its prefill peer, or got from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Said {
    /// Nothing.
    Nothing,
    /// Its page list and tokens.
    Listed,
    /// Its page list and tokens, and then that it is given up.
    Revoked,
    /// That it is given up, and no page list before.
    Withdrawn,
    /// Its page list and tokens; and its KV is whole there.
    Whole,
}

/// A leg that the decode group asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// The leg.
    pub leg: Leg,
    /// Its place in acceptance order, until the prefill group forgets it.
    pub id: Option<RequestId>,
    /// Whether the decode group is done with it: it gave it up, was told that it failed, or has it whole.
    pub ended: bool,
    /// By rank.
    pub said: Vec<Said>,
}

impl Order {
    /// A leg that was just accepted.
    #[must_use]
    pub fn new(leg: Leg, id: RequestId, ranks: usize) -> Self {
        Self { leg, id: Some(id), ended: false, said: vec![Said::Nothing; ranks] }
    }

    /// Whether every rank's peer has listed it.
    #[must_use]
    pub fn listed_everywhere(&self) -> bool {
        self.said.iter().all(|said| matches!(said, Said::Listed | Said::Revoked | Said::Whole))
    }

    /// Whether the decode group has its KV.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.said.iter().all(|said| *said == Said::Whole)
    }

    /// Notes that a fact reached `rank`.
    pub fn took_place(&mut self, rank: usize, fact: WriteFact) {
        let said = self.said[rank];
        self.said[rank] = match (fact, said) {
            (WriteFact::Listed, Said::Nothing) => Said::Listed,
            (WriteFact::Revoked, Said::Nothing) => Said::Withdrawn,
            (WriteFact::Revoked, Said::Listed) => Said::Revoked,
            (WriteFact::Written, Said::Listed) => Said::Whole,
            (WriteFact::Listed | WriteFact::Revoked | WriteFact::Written | WriteFact::WriteFailed, kept) => kept,
        };
        self.ended |= fact == WriteFact::Revoked || self.whole();
    }
}

impl Counters for Order {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit_peer(&mut self.leg, visit);
        if let Some(id) = &mut self.id {
            visit(Counter::Request, &mut id.0);
        }
    }
}

/// A slot of the decode group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DecodeSlot {
    /// Its latest leg.
    pub current: Option<Order>,
    /// The leg before, which the prefill group may still hold.
    pub previous: Option<Order>,
    /// Whether the latest leg was asked for in this round of the prefill group.
    pub asked: bool,
}

impl DecodeSlot {
    /// The leg that comes next: another attempt of a request whose KV had arrived, or another request.
    #[must_use]
    pub fn next_leg(&self, slot: SlotIndex) -> Leg {
        let Some(order) = &self.current else {
            return Leg { epoch: Epoch(0), slot, generation: Generation(0), attempt: Attempt(0) };
        };
        let Leg { generation, attempt, .. } = order.leg;
        if order.whole() {
            Leg { attempt: Attempt(attempt.0 + 1), ..order.leg }
        } else {
            Leg { generation: Generation(generation.0 + 1), attempt: Attempt(0), ..order.leg }
        }
    }

    /// Whether the decode group may ask for another leg: it is done with the latest, of which the prefill leader has heard. One leg in
    /// a round of the prefill group; more could only replace each other before anyone is told.
    #[must_use]
    pub fn free(&self) -> bool {
        !self.asked && self.current.as_ref().is_none_or(|order| order.ended && order.said[0] != Said::Nothing)
    }

    /// Asks for another leg.
    pub fn ask(&mut self, order: Order) {
        self.previous = self.current.replace(order).filter(|earlier| earlier.id.is_some());
        self.asked = true;
    }

    /// Both legs.
    pub fn orders(&self) -> impl Iterator<Item = &Order> {
        self.current.iter().chain(&self.previous)
    }

    /// The order of a leg.
    pub fn order(&mut self, leg: Leg) -> Option<&mut Order> {
        self.current.iter_mut().chain(&mut self.previous).find(|order| order.leg == leg)
    }

    /// Notes that the prefill group forgot a leg.
    pub fn forget(&mut self, leg: Leg) {
        self.previous.take_if(|order| order.leg == leg);
        if let Some(order) = self.order(leg) {
            order.id = None;
            order.ended = true;
        }
    }
}

impl Counters for DecodeSlot {
    /// Counters are renamed between rounds, when nothing has been asked for in the round that comes.
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.asked = false;
        self.current.visit(visit);
        self.previous.visit(visit);
    }
}

/// A write that a prefill rank posted and that has not completed: it may read its pages at any moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Whose KV.
    pub leg: Leg,
    /// Where it is read from.
    pub pages: Vec<PageId>,
}
