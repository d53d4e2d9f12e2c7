//! Everything that a designer's file names: `use lockstep_model::protocol::{self, prelude::*};`

pub use super::collective::{Collective, Meeting, Members, Numbered, Operation};
pub use super::design::{Claims, Protocol, StateOf};
pub use crate::world::Interleaving;
pub use crate::{blocking_sites, no_counters};
pub use lockstep_spec::agreed::Words;
pub use lockstep_spec::counters::{Counter, Counters};
pub use lockstep_spec::fault::Fault;
pub use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
pub use lockstep_spec::ticket::{Communicator, SiteName, Ticket};
