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

    /// Whether pages may be freed, with `flying` forwards that name them in flight.
    fn releasable(flying: u32, drained: bool) -> bool {
        flying == 0 && drained
    }

    /// Whether a leg of `tokens` tokens may be written once so many are computed.
    fn may_write(computed: u32, tokens: u32) -> bool {
        computed >= tokens
    }

    /// Whether a group on its way out gives legs up before it retires forwards. The writes that a retirement starts are newer than the
    /// vote that says what is drained.
    fn closes_before_retiring() -> bool {
        true
    }

    /// Whether a list or a write has been waited for too long.
    fn late(age_ticks: u32, deadline_ticks: u32) -> bool {
        age_ticks >= deadline_ticks
    }

    /// Most pages that a leg of `tokens` tokens takes from the cache: one token at least is computed, for the token after it.
    fn matchable(tokens: u32, page_size: u32) -> u32 {
        tokens.saturating_sub(1) / page_size
    }

    /// Whether the pages of a leg are kept, of which so many tokens are computed.
    fn keeps(computed: u32, tokens: u32) -> bool {
        computed >= tokens
    }

    /// Whether a kept page may be given up on the devices: no leg holds it, and no copy touches it.
    fn evictable(held: bool, copying: bool) -> bool {
        !held && !copying
    }

    /// Whether a leg runs only once all its pages have come back from the hosts, on every rank.
    fn waits_for_loads() -> bool {
        true
    }

    /// Whether a page that a leg gives back stays with the cache.
    fn leaves_kept(kept: bool) -> bool {
        kept
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
