//! What surrounds the ranks of a world, and what a world asks of it.

use super::{Action, Completion, Interleaving};
use crate::explore::{Notes, Obligation};
use crate::traces::Happened;
use lockstep_spec::counters::Counters;
use lockstep_spec::program::{Posted, RankProgram};
use std::fmt::Debug;
use std::hash::Hash;

/// What surrounds the ranks.
pub trait Environment: Clone + Eq + Hash + Debug + Counters + Send + Sync + 'static {
    /// The ranks.
    type Program: RankProgram;
    /// Bounds and choices of a run.
    type Setting: Debug + Send + Sync + 'static;

    /// Whether what its leader tells clients is judged.
    const TELLS: bool = false;

    /// The world before anything happens.
    fn genesis(setting: &Self::Setting) -> (Vec<Self::Program>, Self);

    /// Which interleavings are explored.
    fn interleaving(setting: &Self::Setting) -> Interleaving;

    /// How outcomes reach the ranks.
    fn completion(_: &Self::Setting) -> Completion {
        Completion::Together
    }

    /// Whether the ranks that do not lead are interchangeable, so that one order of theirs stands for all.
    fn symmetric(_: &Self::Setting) -> bool {
        false
    }

    /// Whether facts that no vote tells apart reach a rank in one step.
    fn bundled(_: &Self::Setting) -> bool {
        false
    }

    /// The fact that reaches a rank in the same step as those before.
    fn behind(&self, _: &Self::Setting, _: &[Self::Program], _rank: usize) -> Option<FactOf<Self>> {
        None
    }

    /// What surrounds a rank alone, as one number.
    fn part(&self, _rank: usize) -> u128 {
        0
    }

    /// Puts what surrounds each rank into another order: place `i` gets that of rank `order[i]`.
    fn arrange(&mut self, _order: &[usize]) {}

    /// Facts that may reach `rank` now.
    fn facts(
        &self,
        setting: &Self::Setting,
        ranks: &[Self::Program],
        rank: usize,
        facts: &mut Vec<FactOf<Self>>,
    );

    /// Notes that a fact was delivered.
    fn delivered(&mut self, setting: &Self::Setting, rank: usize, fact: &FactOf<Self>);

    /// The fact that the oldest device collective of `rank` has completed there.
    fn completed(&mut self, setting: &Self::Setting, ranks: &[Self::Program], rank: usize) -> FactOf<Self>;

    /// What ranks hear of an outcome.
    fn heard(_: &Self::Setting, posted: Posted<SiteOf<Self>>) -> Posted<SiteOf<Self>> {
        posted
    }

    /// Does what a rank asks of its surroundings.
    ///
    /// # Errors
    /// The property that doing it violates.
    fn perform(
        &mut self,
        setting: &Self::Setting,
        ranks: &[Self::Program],
        rank: usize,
        local: &LocalOf<Self>,
    ) -> Result<(), &'static str>;

    /// Notes that every rank has ended a round.
    fn round_ended(&mut self) {}

    /// Checks a state in which every rank is between rounds.
    ///
    /// # Errors
    /// The violated property.
    fn check(&self, setting: &Self::Setting, ranks: &[Self::Program]) -> Result<(), &'static str>;

    /// What two ranks between rounds must have equal.
    fn agreed_digest(rank: &Self::Program) -> u64;

    /// Whether a rank is between rounds and may turn.
    fn outside(rank: &Self::Program) -> bool;

    /// Whether a rank left in order.
    fn left(rank: &Self::Program) -> bool;

    /// Whether nothing is left to do.
    fn rested(&self, setting: &Self::Setting, ranks: &[Self::Program]) -> bool;

    /// Whether delivering a fact neither aborts, nor fails, nor adds work.
    fn benign(fact: &FactOf<Self>) -> bool;

    /// What must end, where a run is about that: then ranks turn, collectives complete, devices finish, and what is owed comes.
    fn obligations(_: &Self::Setting) -> Vec<Obligation> {
        Vec::new()
    }

    /// Bit k: obligation k is pending.
    fn pending(_: &[Self::Program]) -> u32 {
        0
    }

    /// What is owed to the ranks, by name.
    fn owed(_: &Self::Setting) -> Vec<String> {
        Vec::new()
    }

    /// Which of that a fact is; none of what may fail, or need not happen.
    fn owes(_: &Self::Setting, _rank: usize, _: &FactOf<Self>) -> Option<usize> {
        None
    }

    /// The guards by which a rank decides when this happens to it, with what they say there: for drawings. What happens to another rank
    /// alone (then `concerned` is false) may be a guard that says no here.
    fn guards(
        _rank: &Self::Program,
        _action: &Action<FactOf<Self>>,
        _concerned: bool,
    ) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Names of what all runs together should cover: facts, and what decisions do.
    fn points() -> Vec<String> {
        Vec::new()
    }

    /// Notes a fact that reaches a rank.
    fn note_fact(_fact: &FactOf<Self>, _notes: &mut Notes) {}

    /// Where each slot's occupant stands in what is agreed: what a decision changes.
    fn standings(_rank: &Self::Program) -> Vec<Standing> {
        Vec::new()
    }

    /// Notes what a rank that stood so did, and where it has come to stand.
    fn note_decision(
        _before: &[Standing],
        _rank: &Self::Program,
        _locals: &[LocalOf<Self>],
        _notes: &mut Notes,
    ) {
    }

    /// Description of a rank for a person: field and value.
    fn describe(&self, rank: &Self::Program, index: usize) -> Vec<(String, String)>;

    /// The traces that ranks write to which this happens, by rank, where they are the program's own.
    fn traces(_setting: &Self::Setting, _happened: Vec<Happened<Self::Program>>) -> Vec<String> {
        Vec::new()
    }
}

/// Which occupant a slot has, and the index of its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Counts up with each occupant.
    pub generation: u64,
    /// 0 where the slot is free.
    pub phase: usize,
}

/// A fact of an environment's ranks.
pub type FactOf<E> = <<E as Environment>::Program as RankProgram>::Fact;
/// What an environment's ranks do alone.
pub type LocalOf<E> = <<E as Environment>::Program as RankProgram>::Local;
/// A site of an environment's ranks.
pub type SiteOf<E> = <<E as Environment>::Program as RankProgram>::Site;
