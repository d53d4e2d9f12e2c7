//! The rules of the handshake client. The only implementation here is the one that ships; a checker's mutants override one method each.

use core::fmt;
use core::hash::Hash;

/// When the client asks, tries, and gives up.
pub trait Rules: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// Whether a place that is known is opened without asking for it again.
    fn keeps_place() -> bool {
        true
    }

    /// Whether a place that refuses is asked for anew: the prefill rank may have moved.
    fn forgets_what_refused() -> bool {
        true
    }

    /// Ticks until the attempt after the next.
    fn next_pause(pause: u32, first: u32, interval: u32) -> u32 {
        pause.saturating_mul(2).max(first).min(interval)
    }

    /// Whether a hello fails, after so many ticks without an answer.
    fn is_exhausted(ticks: u32, patience: u32) -> bool {
        ticks >= patience
    }

    /// Whether hellos that wait are said on a connection that opens.
    fn says_again() -> bool {
        true
    }

    /// Whether an answer is for a leg that waits for one, by whether it has had it.
    fn awaits_answer(ready: bool) -> bool {
        !ready
    }

    /// Whether a leg ends when its connection does, by whether its hello was answered: what was said on it, and what was granted, is
    /// gone with the peer.
    fn ends_with_its_connection(_ready: bool) -> bool {
        true
    }
}

/// The rules that ship.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shipped;

impl Rules for Shipped {}
