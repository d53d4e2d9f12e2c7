//! Renaming the counters of two groups together. Legs are named by the decode group and requests by the front end, so those counters are
//! shared; a prefill group's rounds, forwards and slots are its own.

use lockstep_spec::counters::{Counter, Counters};

/// A part of the prefill group, as far as its counters are shared with the decode group.
pub(super) struct Shared<'a, T>(pub(super) &'a mut T);

impl<T: Counters> Counters for Shared<'_, T> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.0.visit(&mut |counter, value| match counter {
            Counter::PeerGeneration(slot) => visit(Counter::Generation(slot), value),
            Counter::PeerAttempt(slot) => visit(Counter::Attempt(slot), value),
            Counter::Request => visit(counter, value),
            Counter::Round
            | Counter::Forward
            | Counter::Copy
            | Counter::Use
            | Counter::Generation(_)
            | Counter::Attempt(_) => {}
        });
    }
}

/// A part of the prefill group, as far as its counters are its own.
pub(super) struct Own<'a, T>(pub(super) &'a mut T);

impl<T: Counters> Counters for Own<'_, T> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.0.visit(&mut |counter, value| match counter {
            Counter::Round
            | Counter::Forward
            | Counter::Copy
            | Counter::Use
            | Counter::Generation(_)
            | Counter::Attempt(_) => {
                visit(counter, value);
            }
            Counter::PeerGeneration(_) | Counter::PeerAttempt(_) | Counter::Request => {}
        });
    }
}
