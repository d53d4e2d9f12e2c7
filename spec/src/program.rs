//! One rank's behaviour as a sequence of collectives and local events: what a checker runs, and what the machine of this package is.

use crate::agreed::Words;
use crate::counters::Counters;
use crate::ticket::{SiteName, Ticket};
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;
use serde::{Deserialize, Serialize};

/// What happens to a rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event<F, S> {
    /// The rank's loop turns: it may enter its next collective.
    Turn,
    /// Something reached this rank alone.
    Fact(F),
    /// A control collective that this rank entered has completed, with what came out of it.
    Completed {
        /// Which one.
        ticket: Ticket<S>,
        /// The reduced or broadcast words.
        payload: Words,
    },
}

/// What a rank does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Effect<E, L> {
    /// It enters a collective.
    Enter(E),
    /// It does something that no other rank takes part in.
    Local(L),
    /// It ends, with the evidence.
    Fault(crate::fault::Fault),
    /// It leaves in order, in the same round as every other rank.
    Leave,
}

/// An entry into a collective as an observer of the group sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Posted<S> {
    /// Which collective.
    pub ticket: Ticket<S>,
    /// What this rank brings.
    pub payload: Words,
}

/// One rank of some protocol. [`crate::machine::RankMachine`] is one; the conventional designs that the checker refutes are others; a
/// protocol designer brings a third.
pub trait RankProgram: Clone + Eq + Hash + fmt::Debug + Counters + Send + Sync + 'static {
    /// The places where its group meets.
    type Site: SiteName;
    /// What reaches one rank alone.
    type Fact: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;
    /// What it enters a collective with.
    type Entry: Into<Posted<Self::Site>> + Clone + fmt::Debug;
    /// What it does alone.
    type Local: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;

    /// Takes one event and appends what the rank does. Total: for each event in each phase a transition or a fault; it never panics.
    fn step(
        &mut self,
        event: Event<Self::Fact, Self::Site>,
        effects: &mut Vec<Effect<Self::Entry, Self::Local>>,
    );
}

impl From<crate::agreed::Entry> for Posted<crate::ticket::Site> {
    fn from(entry: crate::agreed::Entry) -> Self {
        Self { ticket: *entry.ticket(), payload: entry.payload().to_vec() }
    }
}
