//! N real ranks in one world. The ranks are programs, executed as they are; only what surrounds them is modelled: how collectives meet,
//! and an [`Environment`] that says which facts may reach which rank.
//!
//! Three reductions. Each is a choice of the setting, and tests compare them with what they stand for:
//! * [`Interleaving::FixedOrder`]: between two collectives only the lowest rank that has not entered moves, and facts reach a rank just
//!   before it enters; but for the forwards that its device must finish before what it awaits. Ranks do not see each other between
//!   collectives, so their steps commute. It may hide a program whose ranks communicate beside the collectives.
//! * [`Completion::Together`]: all ranks take a completed collective's outcome in one step. What a rank does with it reads and writes its
//!   own state alone. It may hide a crash between two ranks' completions; where ranks crash ([`crate::epochs`]), completions come one by
//!   one.
//! * [`Environment::symmetric`]: ranks that do not lead are put in an order of what they and their surroundings hold, whenever they are
//!   between rounds or have entered the same collective. They run the same program on the same agreed state. It may hide one in which a
//!   rank's index matters beyond leading; and in a counterexample a rank may change its place.
//!
//! One bound remains and is argued. Where completions come one by one, the ranks need never all be between rounds at once, and counters
//! are rebased only then; so a rank turns twice at most after such a moment. Nothing is lost: whatever ran ahead in the next round cannot
//! complete there before the last rank has taken the outcome of this one, and commutes with its taking it.

mod environment;

pub use environment::{Environment, FactOf, LocalOf, SiteOf, Standing};

use crate::explore::Notes;
use crate::group::Group;
use crate::rebase::Renaming;
use lockstep_spec::invariant::agreed_equal;
use lockstep_spec::program::{Event, Posted};
use std::fmt::Debug;
use std::hash::Hash;

/// Which interleavings are explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interleaving {
    /// All: any rank moves at any time.
    Full,
    /// The lowest rank that has not entered moves.
    FixedOrder,
}

/// How the outcome of a completed control collective reaches the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// Each rank takes it in a step of its own, and may go on before others have taken it.
    OneByOne,
    /// All take it in one step.
    Together,
}

/// Turns of a rank, from a moment in which all ranks are between rounds to the next, where completions come one by one.
const MOST_TURNS: u8 = 2;

/// One step of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action<F> {
    /// A fact reaches a rank.
    Fact(usize, F),
    /// A rank's device finishes its oldest collective.
    Retire(usize),
    /// A rank's loop turns.
    Turn(usize),
    /// The control collective that all ranks have entered completes.
    Complete,
    /// A rank takes the outcome of the control collective that it waits in.
    Take(usize),
}

/// A state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World<E: Environment> {
    /// The ranks, and what they have entered.
    pub group: Group<E::Program>,
    /// What surrounds them.
    pub environment: E,
    /// The property that does not hold, if any: then there is no next state.
    pub violation: Option<&'static str>,
    /// By rank: its turns since all were between rounds; counted where completions come one by one.
    turns: Vec<u8>,
}

impl<E: Environment> World<E> {
    /// The world before anything happens.
    #[must_use]
    pub fn genesis(setting: &E::Setting) -> Self {
        let (ranks, environment) = E::genesis(setting);
        Self { turns: vec![0; ranks.len()], group: Group::new(ranks), environment, violation: None }
    }

    /// Puts another group, which has done nothing yet, in the place of this one.
    pub fn regroup(&mut self, ranks: Vec<E::Program>) {
        self.turns = vec![0; ranks.len()];
        self.group.renew(ranks);
    }

    /// Steps that may come next.
    pub fn actions(&self, setting: &E::Setting, actions: &mut Vec<Action<FactOf<E>>>) {
        if self.violation.is_some() {
            return;
        }
        self.completions(setting, actions);
        let ranks = 0..self.group.ranks.len();
        match E::interleaving(setting) {
            Interleaving::Full => ranks.for_each(|rank| self.rank_actions(setting, rank, actions)),
            Interleaving::FixedOrder => {
                let free = |rank: &usize| self.group.lives(*rank) && !self.group.control.waits(*rank);
                // Who awaits something of its device's queue awaits what is ahead of it there.
                let held_up = |rank: &usize| {
                    self.group.lives(*rank) && self.group.is_held_up(*rank) && self.group.retires(*rank)
                };
                match ranks.clone().find(free) {
                    Some(rank) => self.rank_actions(setting, rank, actions),
                    None => actions.extend(ranks.into_iter().find(held_up).map(Action::Retire)),
                }
            }
        }
    }

    fn completions(&self, setting: &E::Setting, actions: &mut Vec<Action<FactOf<E>>>) {
        let mut ranks = 0..self.group.ranks.len();
        match E::completion(setting) {
            Completion::Together if ranks.all(|rank| self.group.takes(rank)) => {
                actions.push(Action::Complete);
            }
            Completion::Together => {}
            Completion::OneByOne => {
                let takes = |rank: &usize| self.group.lives(*rank) && self.group.takes(*rank);
                actions.extend(ranks.filter(takes).map(Action::Take));
            }
        }
    }

    /// Steps that are possible for each rank, whoever moves first.
    pub fn actions_of_all(&self, setting: &E::Setting, actions: &mut Vec<Action<FactOf<E>>>) {
        if self.violation.is_none() {
            self.completions(setting, actions);
            (0..self.group.ranks.len()).for_each(|rank| self.rank_actions(setting, rank, actions));
        }
    }

    fn rank_actions(&self, setting: &E::Setting, rank: usize, actions: &mut Vec<Action<FactOf<E>>>) {
        if E::left(&self.group.ranks[rank]) || !self.group.lives(rank) {
            return;
        }
        let mut facts = Vec::new();
        self.environment.facts(setting, &self.group.ranks, rank, &mut facts);
        actions.extend(facts.into_iter().map(|fact| Action::Fact(rank, fact)));
        if self.group.retires(rank) {
            actions.push(Action::Retire(rank));
        }
        if !self.group.control.waits(rank) && self.turns[rank] < MOST_TURNS {
            actions.push(Action::Turn(rank));
        }
    }

    /// The state after a step.
    #[must_use]
    pub fn after(&self, setting: &E::Setting, action: &Action<FactOf<E>>) -> Self {
        self.after_noted(setting, action, &mut Notes::default())
    }

    /// The state after a step; notes what it covers.
    #[must_use]
    pub fn after_noted(&self, setting: &E::Setting, action: &Action<FactOf<E>>, notes: &mut Notes) -> Self {
        let mut next = self.clone();
        if let Err(property) = next.take(setting, action, notes) {
            next.violation = Some(property);
        }
        next
    }

    /// Takes a step; notes what it covers. Where all ranks are between rounds after it, the counters are rebased.
    ///
    /// # Errors
    /// The property that it violates.
    pub fn take(
        &mut self,
        setting: &E::Setting,
        action: &Action<FactOf<E>>,
        notes: &mut Notes,
    ) -> Result<(), &'static str> {
        self.take_as_counted(setting, action, notes)?;
        match action {
            Action::Complete | Action::Take(_) if self.between_rounds() => self.rebase(),
            Action::Complete | Action::Take(_) | Action::Fact(..) | Action::Retire(_) | Action::Turn(_) => {}
        }
        match action {
            Action::Complete | Action::Take(_) | Action::Turn(_) if E::symmetric(setting) => self.arrange(),
            Action::Complete | Action::Take(_) | Action::Turn(_) | Action::Fact(..) | Action::Retire(_) => {}
        }
        Ok(())
    }

    /// Takes a step and leaves the counters as the ranks count them; notes what it covers.
    ///
    /// # Errors
    /// The property that it violates.
    pub fn take_as_counted(
        &mut self,
        setting: &E::Setting,
        action: &Action<FactOf<E>>,
        notes: &mut Notes,
    ) -> Result<(), &'static str> {
        match action {
            Action::Fact(rank, fact) => {
                let mut next = Some(fact.clone());
                while let Some(fact) = next {
                    self.environment.delivered(setting, *rank, &fact);
                    self.see(setting, *rank, fact, notes)?;
                    next = self.environment.behind(setting, &self.group.ranks, *rank);
                }
                Ok(())
            }
            Action::Retire(rank) => {
                let fact = self.environment.completed(setting, &self.group.ranks, *rank);
                self.group.device.retire(*rank);
                self.see(setting, *rank, fact, notes)
            }
            Action::Turn(rank) => {
                self.turns[*rank] += u8::from(E::completion(setting) == Completion::OneByOne);
                self.step(setting, *rank, Event::Turn).map(|_| ())
            }
            Action::Complete => self.complete(setting, notes),
            Action::Take(rank) => self.take_outcome(setting, *rank, notes),
        }
    }

    fn see(
        &mut self,
        setting: &E::Setting,
        rank: usize,
        fact: FactOf<E>,
        notes: &mut Notes,
    ) -> Result<(), &'static str> {
        E::note_fact(&fact, notes);
        self.step(setting, rank, Event::Fact(fact)).map(|_| ())
    }

    fn take_outcome(
        &mut self,
        setting: &E::Setting,
        rank: usize,
        notes: &mut Notes,
    ) -> Result<(), &'static str> {
        if !self.group.control.is_half_taken() {
            self.group.device.check_round()?;
        }
        let Posted { ticket, payload } = E::heard(setting, self.group.take(rank)?);
        self.receive(setting, rank, Event::Completed { ticket, payload }, notes)?;
        self.close_round(setting)
    }

    /// Lets a rank take an outcome. Decisions are the same on every rank; so one rank's are noted.
    fn receive(
        &mut self,
        setting: &E::Setting,
        rank: usize,
        event: Event<FactOf<E>, SiteOf<E>>,
        notes: &mut Notes,
    ) -> Result<(), &'static str> {
        let before = if rank == 0 { E::standings(&self.group.ranks[rank]) } else { Vec::new() };
        let locals = self.step(setting, rank, event)?;
        if rank == 0 {
            E::note_decision(&before, &self.group.ranks[rank], &locals, notes);
        }
        Ok(())
    }

    fn complete(&mut self, setting: &E::Setting, notes: &mut Notes) -> Result<(), &'static str> {
        self.group.device.check_round()?;
        for rank in 0..self.group.ranks.len() {
            let Posted { ticket, payload } = E::heard(setting, self.group.take(rank)?);
            self.receive(setting, rank, Event::Completed { ticket, payload }, notes)?;
        }
        self.close_round(setting)
    }

    /// When every rank is between rounds, what is agreed is compared.
    fn close_round(&mut self, setting: &E::Setting) -> Result<(), &'static str> {
        if !self.between_rounds() {
            return Ok(());
        }
        let digests: Vec<(u64, u64)> =
            self.group.ranks.iter().map(|rank| (0, E::agreed_digest(rank))).collect();
        if !agreed_equal::holds(&digests) {
            return Err(agreed_equal::PROPERTY.id);
        }
        self.turns.fill(0);
        self.environment.round_ended();
        self.environment.check(setting, &self.group.ranks)
    }

    /// Whether every rank is between rounds or has left, and none has entered a control collective.
    #[must_use]
    pub fn between_rounds(&self) -> bool {
        let outside = |rank: &E::Program| E::outside(rank) || E::left(rank);
        self.group.is_whole() && self.group.control.is_empty() && self.group.ranks.iter().all(outside)
    }

    /// Puts ranks that do not lead into the order of what they and their surroundings hold: all of them between rounds, and else those that
    /// have entered a collective, in their places.
    pub fn arrange(&mut self) {
        let (all, control) = (self.between_rounds(), &self.group.control);
        let places: Vec<usize> =
            (1..self.group.ranks.len()).filter(|rank| all || control.has_entered(*rank)).collect();
        let key = |rank: &usize| (self.group.part(*rank), self.environment.part(*rank));
        if places.is_sorted_by_key(key) {
            return;
        }
        let mut sorted = places.clone();
        sorted.sort_by_cached_key(key);
        let mut order: Vec<usize> = (0..self.group.ranks.len()).collect();
        places.into_iter().zip(sorted).for_each(|(place, from)| order[place] = from);
        self.group.arrange(&order);
        self.environment.arrange(&order);
    }

    /// Rebases the counters of a world in which every rank is between rounds.
    pub fn rebase(&mut self) {
        let mut renaming = Renaming::default();
        self.group.collect(&mut renaming);
        renaming.collect(&mut self.environment);
        self.group.rename(&renaming);
        renaming.rename(&mut self.environment);
    }

    /// Lets a rank take an event, and its surroundings what it does alone.
    ///
    /// # Errors
    /// The property that it violates.
    pub fn step(
        &mut self,
        setting: &E::Setting,
        rank: usize,
        event: Event<FactOf<E>, SiteOf<E>>,
    ) -> Result<Vec<LocalOf<E>>, &'static str> {
        let locals = self.group.step(rank, event)?;
        for local in &locals {
            self.environment.perform(setting, &self.group.ranks, rank, local)?;
        }
        Ok(locals)
    }

    /// Whether the group is at rest: nothing entered, nothing queued, nothing to do.
    #[must_use]
    pub fn rested(&self, setting: &E::Setting) -> bool {
        let left = self.group.ranks.iter().all(E::left);
        let quiet = self.group.is_quiet();
        self.violation.is_none() && (left || (quiet && self.environment.rested(setting, &self.group.ranks)))
    }
}
