//! The shipped rules of the prefill group, each broken once: to show that the checker would notice.

use lockstep_spec::prefill::evidence::Writes;
use lockstep_spec::prefill::rules::Rules;

/// Pages are released although a write that reads them is outstanding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DrainedIgnoresWrites;

impl Rules for DrainedIgnoresWrites {
    fn drained(_: Writes) -> bool {
        true
    }
}

/// A leg starts before its page list is on every rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartsUnlisted;

impl Rules for StartsUnlisted {
    fn waits_for_lists() -> bool {
        false
    }
}

/// A leg that fits passes an older one that lacks pages. Unfair, but safe and never trapped: the older one may be overtaken for ever,
/// and can still run whenever arrivals pause.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PassesMisfits;

impl Rules for PassesMisfits {
    fn first_misfit_stops() -> bool {
        false
    }
}
