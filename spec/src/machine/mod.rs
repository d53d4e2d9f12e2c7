//! One rank of a group: the round, the same for both roles.
//!
//! ```text
//!            Turn                 vote completes               brief completes
//! Outside ─────────▶ Voting ──┬── brief words > 0 ──▶ Briefing ────────────────▶ decide ─▶ Outside
//!                             └── none ─────────────▶ decide ─▶ Outside                └─▶ Left
//! any phase ── broken contract ──▶ Faulted
//! ```
//! Deciding is agreed; performing the decision is local, but for the launch, whose ticket is agreed too. Where votes go in the devices' queue,
//! a forward is made ready with the decision and entered by the next turn, behind its vote; so a vote waits for the forward before that one alone.
//!
//! Read [`RankMachine::step`] first, then `round` (the round, function by function), `facts` (what is taken outside it), and
//! [`crate::role::Role`] for what a role adds.

mod facts;
mod round;

pub use facts::{Fact, Local};

use crate::agreed::{Agreed, Entry, Words};
use crate::configuration::{ConfigurationError, GroupConfiguration};
use crate::counters::{Counter, Counters};
use crate::fault::Fault;
use crate::host::Copy;
use crate::ids::{Epoch, RankIndex, Round};
use crate::local::{Device, Intake};
use crate::program::{Effect, Event, RankProgram};
use crate::role::Role;
use crate::table::{Flight, State};
use crate::ticket::{Site, Ticket};
use crate::vote::Outcome;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

/// Where in its round a rank is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// Between rounds: the next turn posts a vote.
    Outside,
    /// Its vote is posted.
    Voting {
        /// The vote's ticket.
        ticket: Agreed<Ticket>,
        /// The leader's brief, frozen with its vote.
        brief: Words,
    },
    /// The vote is agreed and the brief is awaited.
    Briefing {
        /// The brief's ticket.
        ticket: Agreed<Ticket>,
        /// The reduced vote.
        outcome: Agreed<Outcome>,
    },
    /// It left in order.
    Left,
    /// It ended.
    Faulted(Fault),
}

/// One rank of a group in role `R`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankMachine<R: Role> {
    configuration: Arc<GroupConfiguration>,
    rank: RankIndex,
    epoch: Agreed<Epoch>,
    round: Agreed<Round>,
    state: Agreed<State<R::Occupant>>,
    /// A forward that is entered with the next vote.
    launching: Agreed<Option<Flight>>,
    position: Position,
    evidence: R::Evidence,
    device: Device,
    intake: Intake<R::Arrival>,
    shutdown_wanted: bool,
    broken: bool,
}

impl<R: Role> Hash for RankMachine<R> {
    /// Leaves out what never changes while a group lives: its configuration, the rank and the epoch.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.round.hash(hasher);
        self.state.hash(hasher);
        self.launching.hash(hasher);
        self.position.hash(hasher);
        self.evidence.hash(hasher);
        self.device.hash(hasher);
        self.intake.hash(hasher);
        (self.shutdown_wanted, self.broken).hash(hasher);
    }
}

type Effects<R> = Vec<Effect<Entry, Local<<R as Role>::Effect>>>;

impl<R: Role> RankMachine<R> {
    /// A rank of a group that has just formed.
    ///
    /// # Errors
    /// A configuration that no group can run with.
    pub fn new(configuration: Arc<GroupConfiguration>, rank: RankIndex) -> Result<Self, ConfigurationError> {
        configuration.validate_for(rank)?;
        Ok(Self {
            rank,
            epoch: Agreed::configured(&configuration, |configuration| configuration.epoch),
            round: Agreed::configured(&configuration, |_| Round(0)),
            state: Agreed::configured(&configuration, State::genesis),
            launching: Agreed::configured(&configuration, |_| None),
            position: Position::Outside,
            evidence: R::evidence(&configuration),
            device: Device::default(),
            intake: Intake::default(),
            shutdown_wanted: false,
            broken: false,
            configuration,
        })
    }

    /// Agreed state before the current round.
    #[must_use]
    pub fn state(&self) -> &Agreed<State<R::Occupant>> {
        &self.state
    }

    /// The current round.
    #[must_use]
    pub fn round(&self) -> Round {
        *self.round.value()
    }

    /// Where in the round this rank is.
    #[must_use]
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// What this rank alone saw.
    #[must_use]
    pub fn evidence(&self) -> &R::Evidence {
        &self.evidence
    }

    /// Forwards that this rank has seen retire beyond the agreed count.
    #[must_use]
    pub fn retired_ahead(&self) -> usize {
        self.device.len()
    }

    /// The copy that this rank's device completes next.
    #[must_use]
    pub fn next_copy(&self) -> Option<&Copy> {
        self.state.value().host.copies().get(self.device.copied())
    }

    /// What the front end told the leader and the leader has not briefed.
    #[must_use]
    pub fn intake(&self) -> &Intake<R::Arrival> {
        &self.intake
    }

    /// Whether a forward is entered with the next vote: then the next turn waits for nothing.
    #[must_use]
    pub fn launches_next(&self) -> bool {
        self.launching.value().is_some()
    }

    /// Whether this rank leads its group.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.rank.0 == 0
    }

    /// Whether the leader has something to say that waits for no other rank.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.shutdown_wanted
            || self.intake.pause.is_some()
            || !self.intake.aborts.is_empty()
            || (self.state.value().free_slots() > 0
                && self.intake.ready::<R>(&self.evidence).next().is_some())
    }

    fn ended(&self) -> bool {
        match self.position {
            Position::Outside | Position::Voting { .. } | Position::Briefing { .. } => false,
            Position::Left | Position::Faulted(_) => true,
        }
    }
}

impl<R: Role> RankProgram for RankMachine<R> {
    type Site = Site;
    type Fact = Fact<R::Arrival, R::Fact>;
    type Entry = Entry;
    type Local = Local<R::Effect>;

    fn step(&mut self, event: Event<Self::Fact, Site>, effects: &mut Effects<R>) {
        if self.ended() {
            return;
        }
        let stepped = match event {
            Event::Turn => {
                if self.position == Position::Outside {
                    self.post_vote(effects);
                }
                Ok(())
            }
            Event::Fact(fact) => self.absorb(fact, effects),
            Event::Completed { ticket, payload } => self.completed(ticket, payload, effects),
        };
        if let Err(fault) = stepped {
            self.position = Position::Faulted(fault);
            effects.push(Effect::Fault(fault));
        }
    }
}

impl<R: Role> Counters for RankMachine<R> {
    /// Visits the counters of a rank between rounds; a posted ticket or brief is not renamed.
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.round.rename(visit);
        self.state.rename(visit);
        self.launching.rename(visit);
        self.evidence.visit(visit);
        self.device.visit(visit);
        self.intake.visit(visit);
    }
}

impl Counters for Round {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Round, &mut self.0);
    }
}
