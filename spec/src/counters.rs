//! Counters that grow without bound. Behaviour reads only their order and equality, so a checker may rename them densely after each
//! round, which folds endless traffic into a finite graph.

use crate::ids::{Leg, SlotIndex};

/// Name of a family of values that are renamed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// `Round`.
    Round,
    /// `ForwardId`.
    Forward,
    /// `CopyId`.
    Copy,
    /// When a kept page was used last.
    Use,
    /// `RequestId`.
    Request,
    /// `Generation` of one slot.
    Generation(SlotIndex),
    /// `Attempt` of one slot.
    Attempt(SlotIndex),
    /// `Generation` of one slot of the other group.
    PeerGeneration(SlotIndex),
    /// `Attempt` of one slot of the other group.
    PeerAttempt(SlotIndex),
}

/// What a value that holds counters offers: a visit of each.
pub trait Counters {
    /// Shows every counter held to `visit`, which may rewrite it.
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64));
}

impl Counters for Leg {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Generation(self.slot), &mut self.generation.0);
        visit(Counter::Attempt(self.slot), &mut self.attempt.0);
    }
}

/// Visits a leg of the other group.
pub fn visit_peer(leg: &mut Leg, visit: &mut dyn FnMut(Counter, &mut u64)) {
    visit(Counter::PeerGeneration(leg.slot), &mut leg.generation.0);
    visit(Counter::PeerAttempt(leg.slot), &mut leg.attempt.0);
}

impl<T: Counters> Counters for [T] {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.iter_mut().for_each(|item| item.visit(visit));
    }
}

impl<T: Counters> Counters for Option<T> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Some(item) = self {
            item.visit(visit);
        }
    }
}
