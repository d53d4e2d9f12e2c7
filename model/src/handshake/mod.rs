//! The handshake client as a protocol of one rank: the real [`HandshakeClient`], a prefill rank that moves or goes for good, and everything
//! that may fail in between.
//!
//! Reading order: this file (what surrounds the client), `watch` (what is said of it), `mutants` (one rule broken at a time).

pub mod mutants;
mod watch;

use lockstep_spec::handshake::{Deed, Fact, HandshakeClient, Retry, Rules};
use lockstep_spec::ids::{Attempt, Epoch, Generation, Leg, SlotIndex};
use lockstep_spec::invariant::handshake_sound;
use lockstep_spec::ticket::Site;

use crate::protocol::prelude::*;
pub use watch::Around;

/// A place of the prefill rank: it is at the first until it moves to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Before it moves.
    First,
    /// After.
    Second,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Happening {
    /// The prefill rank is at the second place from now on.
    Moves,
    /// It is nowhere from now on.
    Goes,
    /// Something reaches the client.
    Client(Fact<Place>),
}

/// A rank that is nothing but its client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rank<R>(HandshakeClient<Place, R>);

impl<R: Rules> RankProgram for Rank<R> {
    type Site = Site;
    type Fact = Happening;
    type Entry = Posted<Site>;
    type Local = Deed<Place>;

    fn step(&mut self, event: Event<Happening, Site>, effects: &mut Vec<Effect<Posted<Site>, Deed<Place>>>) {
        match event {
            Event::Fact(Happening::Client(fact)) => {
                let mut deeds = Vec::new();
                self.0.step(fact, &mut deeds);
                effects.extend(deeds.into_iter().map(Effect::Local));
            }
            Event::Fact(Happening::Moves | Happening::Goes) | Event::Turn | Event::Completed { .. } => {}
        }
    }
}

impl<R> Counters for Rank<R> {
    /// Legs are few, and none comes again.
    fn visit(&mut self, _: &mut dyn FnMut(Counter, &mut u64)) {}
}

/// A decode rank's client and its prefill rank.
#[derive(Debug)]
pub struct Handshake<R> {
    retry: Retry,
    legs: u64,
    rules: std::marker::PhantomData<fn() -> R>,
}

impl<R: Rules> Handshake<R> {
    /// With so many legs, each greeted once at most.
    #[must_use]
    pub fn new(retry: Retry, legs: u64) -> Self {
        Self { retry, legs, rules: std::marker::PhantomData }
    }

    fn legs(&self) -> impl Iterator<Item = Leg> {
        let leg = |attempt| Leg {
            epoch: Epoch(0),
            slot: SlotIndex(0),
            generation: Generation(0),
            attempt: Attempt(attempt),
        };
        (0..self.legs).map(leg)
    }
}

impl<R: Rules> Protocol for Handshake<R> {
    type Rank = Rank<R>;
    type Around = Around;

    fn ranks(&self) -> Vec<Rank<R>> {
        vec![Rank(HandshakeClient::new(self.retry))]
    }

    fn facts(&self, state: &StateOf<Self>, _: usize) -> Vec<Happening> {
        let around = &state.around;
        let mut facts = around.facts();
        facts.extend(self.legs().filter(|leg| !around.has_greeted(*leg)).map(Fact::Hello));
        let mut all: Vec<Happening> = facts.into_iter().map(Happening::Client).collect();
        all.extend(around.may_move().then_some(Happening::Moves));
        all.extend(around.may_go().then_some(Happening::Goes));
        all
    }

    fn delivered(&self, around: &mut Around, _: usize, fact: &Happening) {
        match fact {
            Happening::Moves => around.moves(),
            Happening::Goes => around.goes(),
            Happening::Client(fact) => around.told(fact, self.retry),
        }
    }

    fn perform(&self, around: &mut Around, _: usize, deed: &Deed<Place>) {
        around.does(deed, self.retry);
    }

    fn meets(&self) -> bool {
        false
    }

    fn rested(&self, state: &StateOf<Self>) -> bool {
        !state.around.anyone_waits()
    }

    /// Only what comes by itself.
    fn benign(&self, fact: &Happening) -> bool {
        match fact {
            Happening::Client(Fact::Tick | Fact::Found(_) | Fact::Opened | Fact::Acknowledged(_)) => true,
            Happening::Client(
                Fact::Hello(_) | Fact::Withdrawn(_) | Fact::Unfound | Fact::Refused | Fact::Lost,
            )
            | Happening::Moves
            | Happening::Goes => false,
        }
    }

    fn claims(&self, claims: &mut Claims<Self>) {
        let sound = handshake_sound::PROPERTY;
        claims.always(sound.id, sound.sentence, |_, state| state.around.is_sound());
        claims.reaches("a leg is ready", |_, state| state.around.has_ready());
        claims.reaches("a connection is open where the prefill rank moved to", |_, state| {
            state.around.is_open_at(Place::Second)
        });
        claims.reaches("a place is opened that was known", |_, state| state.around.opens_known());
        claims.reaches("two legs wait for a connection", |_, state| state.around.waiting() == 2);
        claims.reaches("a pause of the whole interval", |protocol, state| {
            state.around.pause_ticks() == protocol.0.retry.interval_ticks
        });
    }
}
