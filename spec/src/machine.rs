//! One rank of a group: the round, the same for both roles.
//!
//! ```text
//!            Turn                 vote completes               brief completes
//! Outside ─────────▶ Voting ──┬── brief words > 0 ──▶ Briefing ────────────────▶ decide ─▶ Outside
//!                             └── none ─────────────▶ decide ─▶ Outside                └─▶ Left
//! any phase ── broken contract ──▶ Faulted
//! ```
//! Deciding is agreed; performing the decision is local, but for the launch, whose ticket is agreed too. Read [`RankMachine::step`]
//! first, then [`crate::role::Role`] for what a role adds.

use crate::agreed::{Agreed, Entry, Words, complete};
use crate::brief::Brief;
use crate::configuration::{ConfigurationError, GroupConfiguration};
use crate::counters::{Counter, Counters};
use crate::digest::Digest;
use crate::fault::Fault;
use crate::ids::{Epoch, ForwardId, RankIndex, RequestId, Round, TokenId};
use crate::invariant;
use crate::local::{Device, Intake};
use crate::program::{Effect, Event, RankProgram};
use crate::role::{Decision, Inputs, Role, TurnedAway};
use crate::table::{Flight, State};
use crate::ticket::{Kind, Site, Ticket};
use crate::vote::{Ballot, Outcome};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use serde::{Deserialize, Serialize};

/// What reaches one rank alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fact<A, R> {
    /// The device finished a forward; `tokens` holds one token for each row of its plan.
    Retired {
        /// The forward.
        forward: ForwardId,
        /// What it sampled.
        tokens: Vec<TokenId>,
    },
    /// The front end accepted a request. Reaches the leader.
    Submitted(A),
    /// The front end wants a request ended. Reaches the leader.
    AbortWanted(RequestId),
    /// This rank was asked to leave.
    ShutdownWanted,
    /// Something on this rank broke; the group must end.
    Broken,
    /// One tick of the clock passed.
    Tick,
    /// What only this role's ranks see.
    Role(R),
}

/// What a rank does alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Local<E> {
    /// Queue this forward's work on the device. It belongs to the `Site::Forward` entry that follows it.
    Launch {
        /// The forward.
        forward: ForwardId,
        /// For each row: slot, position of the first input token, number of tokens, pages.
        rows: Vec<crate::table::Row>,
    },
    /// What only this role's ranks do.
    Role(E),
}

impl Serialize for crate::table::Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.slot, self.position, self.tokens, &self.pages).serialize(serializer)
    }
}

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
        self.position.hash(hasher);
        self.evidence.hash(hasher);
        self.device.hash(hasher);
        self.intake.hash(hasher);
        (self.shutdown_wanted, self.broken).hash(hasher);
    }
}

type Effects<R> = Vec<Effect<Entry, Local<<R as Role>::Effect>>>;
type Decided<R> = Agreed<Decision<<R as Role>::Occupant, <R as Role>::Action>>;

impl<R: Role> RankMachine<R> {
    /// A rank of a group that has just formed.
    ///
    /// # Errors
    /// A configuration that no group can run with.
    pub fn new(configuration: Arc<GroupConfiguration>, rank: RankIndex) -> Result<Self, ConfigurationError> {
        configuration.validate()?;
        let ranks = configuration.ranks;
        if rank.0 >= ranks {
            return Err(ConfigurationError::Rank { rank: rank.0, ranks });
        }
        Ok(Self {
            rank,
            epoch: Agreed::configured(&configuration, |configuration| configuration.epoch),
            round: Agreed::configured(&configuration, |_| Round(0)),
            state: Agreed::configured(&configuration, State::genesis),
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

    /// What the front end told the leader and the leader has not briefed.
    #[must_use]
    pub fn intake(&self) -> &Intake<R::Arrival> {
        &self.intake
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
            || !self.intake.aborts.is_empty()
            || (self.state.value().free_slots() > 0
                && self.intake.ready::<R>(&self.evidence).next().is_some())
    }

    fn ticket(&self, site: fn(&GroupConfiguration, (Epoch, Round)) -> Ticket) -> Agreed<Ticket> {
        self.epoch.clone().zip(self.round.clone()).map_with(&self.configuration, site)
    }

    /// Posts the vote: the one entry that nothing guards.
    fn post_vote(&mut self, effects: &mut Effects<R>) {
        let brief = if self.leads() { self.freeze_brief() } else { Words::new() };
        let ticket = self.ticket(|configuration, (epoch, round)| Ticket {
            epoch,
            round,
            site: Site::Vote,
            kind: Kind::MinReduce,
            shape: Ballot::width(configuration),
        });
        effects.push(Effect::Enter(Entry::new(&ticket, self.ballot(brief.len()).into_words())));
        self.position = Position::Voting { ticket, brief };
    }

    /// This rank's vote, sampled now.
    fn ballot(&self, brief_words: usize) -> Ballot {
        let state = self.state.value();
        let mut ballot =
            Ballot::new(&self.configuration, *self.epoch.value(), *self.round.value(), state.digest());
        if self.broken {
            ballot.fault();
        }
        if self.shutdown_wanted {
            ballot.shutdown();
        }
        if self.leads() {
            ballot.brief_words(brief_words);
        }
        self.device.digests().for_each(|digest| ballot.retired(digest));
        for (index, slot) in state.enumerate() {
            ballot.slot(index, R::sample(&self.configuration, slot, index, &self.evidence));
        }
        ballot
    }

    /// What only the leader knows, frozen with its vote: the verdicts are those of the forwards it votes as retired.
    fn freeze_brief(&mut self) -> Words {
        let state = self.state.value();
        let verdicts = self.device.verdicts::<R>(&self.configuration, state);
        let room = self.configuration.brief_words as usize;
        let slots = if state.closing { 0 } else { state.free_slots() };
        let brief = self.intake.take::<R>(verdicts, slots, room, &self.evidence);
        brief.encode()
    }

    fn completed(&mut self, ticket: Ticket, payload: Words, effects: &mut Effects<R>) -> Result<(), Fault> {
        match core::mem::replace(&mut self.position, Position::Outside) {
            Position::Voting { ticket: expected, brief } => {
                let outcome = complete(&expected, ticket, payload)?.map(Outcome::new);
                self.voted(outcome, brief, effects)
            }
            Position::Briefing { ticket: expected, outcome } => {
                let words = complete(&expected, ticket, payload)?;
                self.decide(outcome, words, effects)
            }
            Position::Outside => Err(Fault::Unasked(ticket)),
            ended @ (Position::Left | Position::Faulted(_)) => {
                self.position = ended;
                Ok(())
            }
        }
    }

    /// The vote is agreed: whether a brief follows, and how long it is, depends on nothing else.
    fn voted(
        &mut self,
        outcome: Agreed<Outcome>,
        brief: Words,
        effects: &mut Effects<R>,
    ) -> Result<(), Fault> {
        if let Some(fault) = outcome.value().fault() {
            return Err(fault);
        }
        let length = outcome.as_ref().map(|outcome| outcome.brief_words());
        let ticket = self.epoch.clone().zip(self.round.clone()).zip(length).map_with(
            &self.configuration,
            |configuration, ((epoch, round), shape)| {
                let fits = shape <= u64::from(configuration.brief_words);
                let ticket = Ticket { epoch, round, site: Site::Brief, kind: Kind::Broadcast, shape };
                if fits { Ok((shape > 0).then_some(ticket)) } else { Err(Fault::BadBrief("it is too long")) }
            },
        );
        match ticket.transpose_result()?.transpose() {
            Some(ticket) => {
                effects.push(Effect::Enter(Entry::new(&ticket, brief)));
                self.position = Position::Briefing { ticket, outcome };
                Ok(())
            }
            None => {
                let nothing = Agreed::configured(&self.configuration, |_| Words::new());
                self.decide(outcome, nothing, effects)
            }
        }
    }

    fn decide(
        &mut self,
        outcome: Agreed<Outcome>,
        brief: Agreed<Words>,
        effects: &mut Effects<R>,
    ) -> Result<(), Fault> {
        let brief = brief.map(|words| Brief::decode(&words)).transpose_result()?;
        let inputs = self.epoch.clone().zip(self.state.clone()).zip(outcome.zip(brief));
        let decision = inputs
            .map_with(&self.configuration, |configuration, ((epoch, state), (outcome, brief))| {
                R::decide(configuration, Inputs { epoch, state, outcome, brief })
            })
            .transpose_result()?;
        invariant::check_decision(&self.configuration, self.state.value(), decision.value())?;
        self.perform(decision, effects)
    }

    /// Does this rank's part of an agreed decision, and ends the round.
    fn perform(&mut self, decision: Decided<R>, effects: &mut Effects<R>) -> Result<(), Fault> {
        let Decision { actions, retired, .. } = decision.value();
        let tokens = self.device.agree(&self.state.value().flights.queue, *retired)?;
        for action in actions {
            R::perform(&mut self.evidence, action, &tokens, self.rank, &mut |effect| {
                effects.push(Effect::Local(Local::Role(effect)));
            });
        }
        let (state, flight) = decision.map(Decision::into_parts).unzip();
        if let Some(flight) = flight.transpose() {
            R::check_launch(state.value(), &self.evidence, flight.value())?;
            self.launch(flight, effects);
        }
        self.round = self.round.clone().map(Round::next);
        self.state = state;
        let state = self.state.value();
        if state.closing {
            let waiting = core::mem::take(&mut self.intake.arrivals);
            waiting.iter().for_each(|arrival| self.turn_away(arrival, TurnedAway::Aborted, effects));
        }
        if self.state.value().leaving() {
            self.position = Position::Left;
            effects.push(Effect::Leave);
        }
        Ok(())
    }

    fn launch(&self, flight: Agreed<Flight>, effects: &mut Effects<R>) {
        let Flight { id, rows } = flight.value();
        effects.push(Effect::Local(Local::Launch { forward: *id, rows: rows.clone() }));
        let ticket =
            self.epoch.clone().zip(self.round.clone()).zip(flight).map(|((epoch, round), flight)| Ticket {
                epoch,
                round,
                site: Site::Forward,
                kind: Kind::Forward,
                shape: flight.tokens(),
            });
        effects.push(Effect::Enter(Entry::new(&ticket, Words::new())));
    }

    fn absorb(&mut self, fact: Fact<R::Arrival, R::Fact>, effects: &mut Effects<R>) -> Result<(), Fault> {
        match fact {
            Fact::Retired { forward, tokens } => {
                self.device.retire(&self.state.value().flights.queue, forward, tokens)
            }
            Fact::Submitted(arrival) => {
                self.submit(arrival, effects);
                Ok(())
            }
            Fact::AbortWanted(request) => {
                let withdrawn = self.intake.abort::<R>(request);
                withdrawn.iter().for_each(|arrival| self.turn_away(arrival, TurnedAway::Aborted, effects));
                Ok(())
            }
            Fact::ShutdownWanted => {
                self.shutdown_wanted = true;
                Ok(())
            }
            Fact::Broken => {
                self.broken = true;
                Ok(())
            }
            Fact::Tick => {
                R::tick(&self.configuration, self.state.value(), &mut self.evidence);
                Ok(())
            }
            Fact::Role(fact) => {
                R::absorb(*self.epoch.value(), self.state.value(), &mut self.evidence, fact);
                self.intake.arrivals.retain(|arrival| R::wanted(arrival, &self.evidence));
                Ok(())
            }
        }
    }

    /// Takes a new request: refused if it could never run or the group is on its way out, ignored if it is known.
    fn submit(&mut self, arrival: R::Arrival, effects: &mut Effects<R>) {
        let state = self.state.value();
        let known = state.slots.iter().filter_map(|slot| slot.occupant.as_ref()).map(R::arrival);
        if !R::wanted(&arrival, &self.evidence) || known.into_iter().any(|known| R::same(known, &arrival)) {
            return;
        }
        match R::admissible(&self.configuration, &arrival) {
            Err(reason) => self.turn_away(&arrival, TurnedAway::Refused(reason), effects),
            Ok(()) if state.closing => self.turn_away(&arrival, TurnedAway::Aborted, effects),
            Ok(()) => self.intake.submit::<R>(arrival),
        }
    }

    fn turn_away(&self, arrival: &R::Arrival, why: TurnedAway, effects: &mut Effects<R>) {
        let effect = R::turned_away(R::request(arrival), why);
        effects.extend(effect.map(|effect| Effect::Local(Local::Role(effect))));
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

/// Digest of a forward's tokens, as the votes compare it.
#[must_use]
pub fn tokens_digest(tokens: &[TokenId]) -> u64 {
    Digest::of(tokens)
}
