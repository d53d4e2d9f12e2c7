//! The rules of the prefill group, apart from the mechanics; see [`crate::decode::rules`] for why they are a trait.

use crate::prefill::evidence::Writes;
use core::fmt;
use core::hash::Hash;

/// The rules of the prefill group.
pub trait Rules: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// Whether this rank has no outstanding write that reads a slot's pages.
    fn drained(writes: Writes) -> bool {
        !matches!(writes, Writes::Outstanding)
    }

    /// Whether a leg starts only once its page list is on every rank.
    fn waits_for_lists() -> bool {
        true
    }

    /// Whether the first leg that lacks pages stops those behind it.
    fn first_misfit_stops() -> bool {
        true
    }
}

/// The rules that ship.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shipped;

impl Rules for Shipped {}
