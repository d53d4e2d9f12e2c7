//! What a role's ranks do alone: the driver's hands.

use super::device::Batch;
use super::error::RankError;
use super::inputs::Input;
use lockstep_spec::machine::{Fact, RankMachine};
use lockstep_spec::role::Role;
use lockstep_spec::table::Row;

/// A fact for a machine of role `R`.
pub(super) type FactOf<R> = Fact<<R as Role>::Arrival, <R as Role>::Fact>;

/// The doings of one role. No method decides anything that the group must agree on: inputs become facts, effects become calls.
pub(super) trait Hands {
    /// The role.
    type Role: Role;

    /// Turns an input into the facts that it is, and does what concerns this rank alone.
    fn take(&mut self, input: Input, facts: &mut Vec<FactOf<Self::Role>>) -> Result<(), RankError>;

    /// Does what the machine asks; `facts` takes what is known at once.
    fn perform(
        &mut self,
        effect: <Self::Role as Role>::Effect,
        facts: &mut Vec<FactOf<Self::Role>>,
    ) -> Result<(), RankError>;

    /// The device's batch for a plan.
    fn batch(&self, machine: &RankMachine<Self::Role>, rows: Vec<Row>) -> Result<Batch, RankError>;
}
