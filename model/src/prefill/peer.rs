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
    /// Its KV is whole there.
    Whole,
    /// That it is given up; or there is nothing more to say.
    Over,
}

/// A leg that the decode group asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// The leg.
    pub leg: Leg,
    /// Its place in acceptance order, until the prefill group forgets it.
    pub id: Option<RequestId>,
    /// Whether some rank's peer gave it up before it was listed there.
    pub withdrawn: bool,
    /// Whether the decode group is done with it: it gave it up, was told that it failed, or has it whole.
    pub ended: bool,
    /// By rank.
    pub said: Vec<Said>,
}

impl Order {
    /// A leg that was just accepted.
    #[must_use]
    pub fn new(leg: Leg, id: RequestId, ranks: usize) -> Self {
        Self { leg, id: Some(id), withdrawn: false, ended: false, said: vec![Said::Nothing; ranks] }
    }

    /// Whether every rank's peer has listed it.
    #[must_use]
    pub fn listed(&self) -> bool {
        !self.withdrawn && !self.said.contains(&Said::Nothing)
    }

    /// Whether the decode group has its KV.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.said.iter().all(|said| *said == Said::Whole)
    }

    /// Notes that a fact reached `rank`.
    pub fn took_place(&mut self, rank: usize, fact: WriteFact) {
        let said = self.said[rank];
        self.said[rank] = match fact {
            WriteFact::Listed => Said::Listed,
            WriteFact::Revoked => Said::Over,
            WriteFact::Written if said == Said::Listed => Said::Whole,
            WriteFact::Written | WriteFact::WriteFailed => said,
        };
        self.withdrawn |= fact == WriteFact::Revoked && said == Said::Nothing;
        self.ended |= fact == WriteFact::Revoked || self.whole();
    }

    /// Notes that the prefill group forgot it: nothing is said any more, but for page lists that come late.
    fn forget(&mut self, late_facts: bool) {
        self.id = None;
        self.ended = true;
        let late = |said: &Said| late_facts && *said == Said::Nothing;
        self.said.iter_mut().filter(|said| !late(said)).for_each(|said| *said = Said::Over);
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
    /// The leg before, if it was listed on every rank and the prefill group may still hold it.
    pub previous: Option<Leg>,
}

impl DecodeSlot {
    /// The leg that comes next. Whether it is another attempt or another request makes no difference to prefill: a later leg is greater.
    #[must_use]
    pub fn next_leg(&self, slot: SlotIndex) -> Leg {
        let generation = self.current.as_ref().map_or(0, |order| order.leg.generation.0 + 1);
        Leg { epoch: Epoch(0), slot, generation: Generation(generation), attempt: Attempt(0) }
    }

    /// Whether the decode group may ask for another leg: it is done with the latest, and every rank was told; in a `hasty` group it is
    /// enough that the leader has heard of it.
    #[must_use]
    pub fn free(&self, hasty: bool) -> bool {
        let told = |said: &Said| matches!(said, Said::Whole | Said::Over);
        self.current.as_ref().is_none_or(|order| {
            let heard = hasty && order.said[0] != Said::Nothing;
            order.ended && (heard || order.said.iter().all(told))
        })
    }

    /// Asks for another leg.
    pub fn ask(&mut self, order: Order) {
        let earlier = self.current.replace(order).filter(|earlier| earlier.listed() && earlier.id.is_some());
        self.previous = earlier.map(|earlier| earlier.leg);
    }

    /// The order of a leg that is not replaced by a later one.
    pub fn order(&mut self, leg: Leg) -> Option<&mut Order> {
        self.current.as_mut().filter(|order| order.leg == leg)
    }

    /// Whether every rank's peer has listed a leg.
    #[must_use]
    pub fn listed(&self, leg: Leg) -> bool {
        self.previous == Some(leg)
            || self.current.as_ref().is_some_and(|order| order.leg == leg && order.listed())
    }

    /// Notes that the prefill group forgot a leg.
    pub fn forget(&mut self, leg: Leg, late_facts: bool) {
        self.previous.take_if(|earlier| *earlier == leg);
        if let Some(order) = self.order(leg) {
            order.forget(late_facts);
        }
    }
}

impl Counters for DecodeSlot {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.current.visit(visit);
        if let Some(leg) = &mut self.previous {
            visit_peer(leg, visit);
        }
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
