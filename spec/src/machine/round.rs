//! The round: vote, brief, decision, launch. The one place that completes a collective, and the one that enters one.

use super::{Effects, Local, Position, RankMachine};
use crate::agreed::{Agreed, Entry, Words, complete};
use crate::brief::Brief;
use crate::configuration::{GroupConfiguration, Votes};
use crate::fault::Fault;
use crate::ids::Round;
use crate::invariant;
use crate::program::Effect;
use crate::role::{Decision, Inputs, Role, TurnedAway};
use crate::table::Flight;
use crate::ticket::{Kind, Site, Ticket};
use crate::vote::{Ballot, Outcome};

type Decided<R> = Agreed<Decision<<R as Role>::Occupant, <R as Role>::Action>>;

impl<R: Role> RankMachine<R> {
    /// Posts the vote, the one entry that nothing guards, and enters the forward that goes with it.
    pub(super) fn post_vote(&mut self, effects: &mut Effects<R>) {
        let brief = if self.leads() { self.freeze_brief() } else { Words::new() };
        let nothing = Agreed::configured(&self.configuration, |_| None);
        let launching = core::mem::replace(&mut self.launching, nothing);
        let place = self.epoch.clone().zip(self.round.clone()).zip(launching.as_ref());
        let ticket =
            place.map_with(&self.configuration, |configuration, ((epoch, round), launching)| Ticket {
                epoch,
                round,
                site: if launching.is_some() { Site::StreamVote } else { Site::Vote },
                kind: Kind::MinReduce,
                shape: Ballot::width(configuration),
            });
        let vote = Effect::Enter(Entry::new(&ticket, self.ballot(brief.len()).into_words()));
        let launch = launching.transpose().map(|flight| self.enter_forward(flight));
        let (first, then) = if R::votes_first() { (Some(vote), launch) } else { (launch, Some(vote)) };
        effects.extend(first.into_iter().chain(then));
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
        ballot.copied(self.device.copied());
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

    pub(super) fn completed(
        &mut self,
        ticket: Ticket,
        payload: Words,
        effects: &mut Effects<R>,
    ) -> Result<(), Fault> {
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
        let Decision { actions, retired, copied, .. } = decision.value();
        let tokens = self.device.agree(&self.state.value().flights.queue, *retired)?;
        self.device.agree_copied(self.state.value().host.copies(), *copied)?;
        for action in actions {
            R::perform(&mut self.evidence, action, &tokens, self.rank, &mut |effect| {
                effects.push(Effect::Local(Local::Role(effect)));
            });
        }
        effects.push(Effect::Local(Local::Decided(decision.value().reasons.clone())));
        let (state, flight) = decision.map(Decision::into_parts).unzip();
        if let Some(flight @ Flight { id, rows }) = flight.value() {
            R::check_launch(state.value(), &self.evidence, flight)?;
            effects.push(Effect::Local(Local::Launch { forward: *id, rows: rows.clone() }));
        }
        let (now, later) = flight.map_with(&self.configuration, apart).unzip();
        effects.extend(now.transpose().map(|flight| self.enter_forward(flight)));
        self.launching = later;
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

    fn enter_forward(&self, flight: Agreed<Flight>) -> Effect<Entry, Local<R::Effect>> {
        let ticket =
            self.epoch.clone().zip(self.round.clone()).zip(flight).map(|((epoch, round), flight)| Ticket {
                epoch,
                round,
                site: Site::Forward,
                kind: Kind::Forward,
                shape: flight.tokens(),
            });
        Effect::Enter(Entry::new(&ticket, Words::new()))
    }
}

/// What is entered now, and what with the next vote.
fn apart(configuration: &GroupConfiguration, flight: Option<Flight>) -> (Option<Flight>, Option<Flight>) {
    match configuration.votes {
        Votes::Host => (flight, None),
        Votes::Stream => (None, flight),
    }
}
