//! The rules of a start. The only implementation here is the one that ships; a checker's mutants override one method each.

use core::fmt;
use core::hash::Hash;

/// What follows from what is proposed and from what all ranks have.
pub trait Rules: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// Pages of the pool: no more than the rank with the least room has.
    fn pages(proposed: u32, offered: u32) -> u32 {
        proposed.min(offered)
    }

    /// Whether the ranks join a device communicator: one that cannot would be missed for ever.
    fn connects(proposed: bool, offered: bool) -> bool {
        proposed && offered
    }

    /// Whether the communicator is kept, by whether every rank has joined it.
    fn keeps(connects: bool, connected: bool) -> bool {
        connects && connected
    }

    /// Whether every rank gives up what it has joined: a communicator that not all use can only be waited in.
    fn gives_up(connects: bool, kept: bool) -> bool {
        connects && !kept
    }

    /// Whether forwards are replayed, by whether every rank has captured them.
    fn captures(proposed: bool, captured: bool) -> bool {
        proposed && captured
    }
}

/// The rules that ship.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shipped;

impl Rules for Shipped {}
