//! Looking on while a search goes: how far it is, and whether it has to end.
//!
//! The explorer calls an [`Observer`] between two blocks of the frontier. What the observer does with it (drawing, reading the machine's
//! memory) stays outside: the explorer itself has no terminal and no file.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use super::search::{Counts, Unknown};

/// How far a search is.
#[derive(Clone, Copy, Debug)]
pub struct Pulse<'a> {
    /// States found, steps taken, and the distance of the states that are being expanded.
    pub counts: Counts,
    /// States found that are not expanded yet.
    pub frontier: u64,
    /// Number of states at each distance from the initial ones, as far as all of them are found.
    pub levels: &'a [u64],
    /// Time since the start.
    pub elapsed: Duration,
    /// Bytes that may soon be taken at once, beyond what grows with each state: full tables double, and progress is judged on the graph.
    pub ahead: u64,
}

/// Something that looks on while a search goes.
pub trait Observer: Debug + Sync {
    /// Called between two blocks; to break is to end the search without a verdict.
    fn observe(&self, pulse: &Pulse<'_>) -> ControlFlow<Unknown>;
}
