//! The claim, as types. There are two kinds of knowledge: *local* evidence (what one rank saw) and [`Agreed`] values (what came back
//! from a completed collective, or was computed from agreed values and configuration alone). Whether a rank enters a collective, which
//! one, and with what shape, is a function of agreed values; local evidence may only be payload.
//!
//! It is enforced, not asked for. A value becomes `Agreed` only in [`complete`], private to this package and called from one place,
//! and [`Entry`], the only thing a transport takes, is built only from an `Agreed<Ticket>`.
//!
//! A local value cannot be declared agreed:
//! ```compile_fail,E0603
//! let mine: u32 = 3;
//! let agreed = lockstep_spec::agreed::Agreed(mine);
//! ```
//! Neither by default nor from the wire:
//! ```compile_fail,E0277
//! fn needs_default<T: Default>() {}
//! needs_default::<lockstep_spec::agreed::Agreed<u32>>();
//! ```
//! ```compile_fail,E0277
//! fn needs_deserialize<T: for<'a> serde::Deserialize<'a>>() {}
//! needs_deserialize::<lockstep_spec::agreed::Agreed<u32>>();
//! ```
//! It cannot be smuggled in while mapping, since a closure that captures is no `fn` pointer; so a rank-local value cannot choose,
//! guard or size a collective:
//! ```compile_fail,E0308
//! use lockstep_spec::agreed::Agreed;
//! fn enters(slots: Agreed<u32>, my_queue_is_empty: bool) -> Agreed<bool> {
//!     slots.map(|slots| slots > 0 && !my_queue_is_empty)
//! }
//! ```
//! Nor by way of a made-up configuration:
//! ```compile_fail,E0624
//! use lockstep_spec::{agreed::Agreed, configuration::GroupConfiguration};
//! fn agreed(made_up: &GroupConfiguration) -> Agreed<u32> { Agreed::configured(made_up, |made_up| made_up.slots) }
//! ```
//! And a collective cannot be entered with a ticket of one's own making:
//! ```compile_fail,E0624
//! use lockstep_spec::agreed::Entry;
//! use lockstep_spec::ticket::Ticket;
//! fn enter(ticket: &lockstep_spec::agreed::Agreed<Ticket>) -> Entry { Entry::new(ticket, Vec::new()) }
//! ```
//! ```compile_fail,E0451
//! use lockstep_spec::{agreed::Entry, ids::*, ticket::*};
//! let ticket = Ticket { epoch: Epoch(0), round: Round(0), site: Site::Vote, kind: Kind::MinReduce, shape: 1 };
//! let entry = Entry { ticket, payload: vec![0] };
//! ```

use crate::configuration::GroupConfiguration;
use crate::counters::{Counter, Counters};
use crate::fault::Fault;
use crate::ticket::{Kind, Ticket};
use alloc::vec::Vec;
use serde::Serialize;

/// Payload of a collective.
pub type Words = Vec<u64>;

/// A value that every rank of the group holds equal, because a completed collective or configuration alone gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Agreed<T>(T);

impl<T> Agreed<T> {
    /// A value computed from the group's configuration alone.
    pub(crate) fn configured(
        configuration: &GroupConfiguration,
        compute: fn(&GroupConfiguration) -> T,
    ) -> Self {
        Self(compute(configuration))
    }

    /// The value, to be read.
    pub fn value(&self) -> &T {
        &self.0
    }

    /// The value computed from this one.
    pub fn map<U>(self, compute: fn(T) -> U) -> Agreed<U> {
        Agreed(compute(self.0))
    }

    /// The value computed from this one and the group's configuration.
    pub(crate) fn map_with<U>(
        self,
        configuration: &GroupConfiguration,
        compute: fn(&GroupConfiguration, T) -> U,
    ) -> Agreed<U> {
        Agreed(compute(configuration, self.0))
    }

    /// Both values together.
    pub fn zip<U>(self, other: Agreed<U>) -> Agreed<(T, U)> {
        Agreed((self.0, other.0))
    }

    /// The agreed value by reference, so that it can be zipped without a copy.
    pub fn as_ref(&self) -> Agreed<&T> {
        Agreed(&self.0)
    }
}

impl<T, U> Agreed<(T, U)> {
    /// The two values apart.
    pub fn unzip(self) -> (Agreed<T>, Agreed<U>) {
        (Agreed(self.0.0), Agreed(self.0.1))
    }
}

impl<T> Agreed<Option<T>> {
    /// The agreed value if there is one. Every rank takes the same branch.
    pub fn transpose(self) -> Option<Agreed<T>> {
        self.0.map(Agreed)
    }
}

impl<T, E> Agreed<Result<T, E>> {
    /// The agreed value, or what is wrong with it on every rank.
    ///
    /// # Errors
    /// The error that was computed.
    pub fn transpose_result(self) -> Result<Agreed<T>, E> {
        self.0.map(Agreed)
    }
}

impl<T: Counters> Agreed<T> {
    /// Renames the counters of an agreed value: a bijection that a checker applies to every rank at once, so what was agreed stays agreed.
    pub(crate) fn rename(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.0.visit(visit);
    }
}

/// Entry into a collective: the only thing that a transport takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Entry {
    ticket: Ticket,
    payload: Words,
}

impl Entry {
    /// An entry with an agreed ticket. `payload` may be local; it is as long as the agreed shape says, or empty where the rank only
    /// receives.
    pub(crate) fn new(ticket: &Agreed<Ticket>, payload: Words) -> Self {
        Self { ticket: ticket.0, payload }
    }

    /// Which collective.
    #[must_use]
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// What this rank brings.
    #[must_use]
    pub fn payload(&self) -> &[u64] {
        &self.payload
    }
}

/// Turns a transport's completion into an agreed value: the one door. An error of the transport never comes this way; after one, ranks
/// may have seen different things.
pub(crate) fn complete(
    expected: &Agreed<Ticket>,
    ticket: Ticket,
    payload: Words,
) -> Result<Agreed<Words>, Fault> {
    let expected = expected.0;
    if ticket != expected {
        return Err(Fault::WrongCompletion { expected, got: ticket });
    }
    let words = payload.len() as u64;
    match ticket.kind {
        Kind::MinReduce | Kind::Broadcast if words == ticket.shape => Ok(Agreed(payload)),
        Kind::MinReduce | Kind::Broadcast | Kind::Forward | Kind::Connect => {
            Err(Fault::WrongShape { ticket, words })
        }
    }
}
