//! The handshake client of a decode rank: how it reaches its prefill rank, and what becomes of the hellos of its legs.
//!
//! ```text
//!            ┌───────────────── place known ────────────────┐
//!            │                                              ▼
//!  Pausing ──┴─▶ Finding ── Found ────────────────────▶ Opening ── Opened ──▶ Open
//!     ▲             │ Unfound                               │ Refused          │ Lost
//!     └─────────────┴──────────────────────────────◀────────┴──────────────────┘
//! ```
//! A rank keeps the place that it found. A place that refuses is forgotten, and asked for anew. Attempts are throttled: each pause is twice
//! the one before, up to an interval, and begins anew after a connection that lasted. A hello waits for a connection and for its answer, and
//! is exhausted after so many intervals, whatever the attempts do meanwhile. All legs end with the connection that they depended on.
//!
//! Whether a leg's handshake succeeded is evidence of one rank, and travels by vote. So this machine enters no collective: it is driven by
//! raw facts alone, the clock's ticks among them, and never waits.

mod rules;

pub use rules::{Rules, Shipped};

use crate::ids::Leg;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::Hash;
use core::marker::PhantomData;

/// How often a place is tried, in ticks of the driver's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// Between the first two attempts; twice the one before from then on.
    pub first_ticks: u32,
    /// Between any later two, at most.
    pub interval_ticks: u32,
    /// What a hello outlives.
    pub patience_ticks: u32,
}

/// What reaches the client; `P` is a place of a prefill rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact<P> {
    /// The clock went on.
    Tick,
    /// The rank wants the handshake of a leg.
    Hello(Leg),
    /// The rank needs the leg no more, whatever became of it.
    Withdrawn(Leg),
    /// It was told where the prefill rank is.
    Found(P),
    /// Nobody could tell.
    Unfound,
    /// A connection is open.
    Opened,
    /// There is none at that place.
    Refused,
    /// The connection has ended.
    Lost,
    /// The prefill rank has answered the hello of a leg.
    Acknowledged(Leg),
}

/// What the client does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Deed<P> {
    /// It asks where the prefill rank is: `Found` or `Unfound` follows.
    Find,
    /// It opens a connection there: `Opened` or `Refused` follows.
    Open(P),
    /// It says hello on the open connection.
    Say(Leg),
    /// It tells the rank what became of a leg.
    Tell(Leg, Outcome),
}

/// What became of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The prefill rank has answered: pages may be published.
    Ready,
    /// It has not answered in time, or was not reached.
    Exhausted,
    /// The connection has ended that the leg depended on.
    Disconnected,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Way {
    Pausing,
    Finding,
    Opening,
    Open { ticks: u32 },
}

/// A leg, from its hello on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Greeting { ticks: u32 },
    Ready,
}

/// The client of one decode rank for one prefill rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HandshakeClient<P, R = Shipped> {
    retry: Retry,
    known: Option<P>,
    way: Way,
    /// Since the attempt before began, up to the pause.
    since_ticks: u32,
    /// Until the next may.
    pause_ticks: u32,
    legs: BTreeMap<Leg, Stage>,
    rules: PhantomData<R>,
}

impl<P: Clone, R: Rules> HandshakeClient<P, R> {
    /// A client that has asked nothing yet. Its first attempt begins with the first tick.
    #[must_use]
    pub fn new(retry: Retry) -> Self {
        Self {
            retry,
            known: None,
            way: Way::Pausing,
            since_ticks: 0,
            pause_ticks: 0,
            legs: BTreeMap::new(),
            rules: PhantomData,
        }
    }

    /// Whether the leg's hello was answered, on a connection that is still open.
    #[must_use]
    pub fn is_ready(&self, leg: Leg) -> bool {
        self.legs.get(&leg) == Some(&Stage::Ready)
    }

    /// Whether the leg was greeted, and has neither failed nor been withdrawn.
    #[must_use]
    pub fn knows(&self, leg: Leg) -> bool {
        self.legs.contains_key(&leg)
    }

    /// Legs whose hello has no answer yet.
    fn greeting(&self) -> impl Iterator<Item = Leg> {
        let greeting = self.legs.iter().filter(|(_, stage)| matches!(stage, Stage::Greeting { .. }));
        greeting.map(|(leg, _)| *leg)
    }

    /// Takes one fact, and appends what follows. Total: a fact that comes when it is not waited for changes nothing.
    pub fn step(&mut self, fact: Fact<P>, deeds: &mut Vec<Deed<P>>) {
        match (fact, &self.way) {
            (Fact::Tick, _) => self.tick(deeds),
            (Fact::Hello(leg), _) => self.hello(leg, deeds),
            (Fact::Withdrawn(leg), _) => {
                self.legs.remove(&leg);
            }
            (Fact::Found(place), Way::Finding) => {
                self.known = Some(place.clone());
                self.open(place, deeds);
            }
            (Fact::Unfound, Way::Finding) => self.way = Way::Pausing,
            (Fact::Opened, Way::Opening) => {
                self.way = Way::Open { ticks: 0 };
                if R::says_again() {
                    deeds.extend(self.greeting().map(Deed::Say));
                }
            }
            (Fact::Refused, Way::Opening) => {
                if R::forgets_what_refused() {
                    self.known = None;
                }
                self.way = Way::Pausing;
            }
            (Fact::Lost, Way::Open { ticks }) => {
                if *ticks > self.retry.interval_ticks {
                    // A connection that lasted was no failed attempt.
                    self.pause_ticks = 0;
                }
                self.way = Way::Pausing;
                self.lose(deeds);
            }
            (Fact::Acknowledged(leg), Way::Open { .. }) => self.acknowledged(leg, deeds),
            (
                Fact::Found(_)
                | Fact::Unfound
                | Fact::Opened
                | Fact::Refused
                | Fact::Lost
                | Fact::Acknowledged(_),
                Way::Pausing | Way::Finding | Way::Opening | Way::Open { .. },
            ) => {}
        }
    }

    fn tick(&mut self, deeds: &mut Vec<Deed<P>>) {
        self.exhaust(deeds);
        self.since_ticks = self.since_ticks.saturating_add(1).min(self.pause_ticks);
        match &mut self.way {
            Way::Open { ticks } => {
                *ticks = ticks.saturating_add(1).min(self.retry.interval_ticks.saturating_add(1))
            }
            Way::Pausing if self.since_ticks >= self.pause_ticks => self.attempt(deeds),
            Way::Pausing | Way::Finding | Way::Opening => {}
        }
    }

    fn exhaust(&mut self, deeds: &mut Vec<Deed<P>>) {
        let patience = self.retry.patience_ticks;
        self.legs.retain(|leg, stage| match stage {
            Stage::Greeting { ticks } => {
                *ticks = ticks.saturating_add(1).min(patience);
                let exhausted = R::is_exhausted(*ticks, patience);
                if exhausted {
                    deeds.push(Deed::Tell(*leg, Outcome::Exhausted));
                }
                !exhausted
            }
            Stage::Ready => true,
        });
    }

    fn attempt(&mut self, deeds: &mut Vec<Deed<P>>) {
        let Retry { first_ticks, interval_ticks, .. } = self.retry;
        self.since_ticks = 0;
        self.pause_ticks = R::next_pause(self.pause_ticks, first_ticks, interval_ticks);
        match self.known.clone().filter(|_| R::keeps_place()) {
            Some(place) => self.open(place, deeds),
            None => {
                self.way = Way::Finding;
                deeds.push(Deed::Find);
            }
        }
    }

    fn open(&mut self, place: P, deeds: &mut Vec<Deed<P>>) {
        self.way = Way::Opening;
        deeds.push(Deed::Open(place));
    }

    fn hello(&mut self, leg: Leg, deeds: &mut Vec<Deed<P>>) {
        if self.legs.contains_key(&leg) {
            return;
        }
        self.legs.insert(leg, Stage::Greeting { ticks: 0 });
        if matches!(self.way, Way::Open { .. }) {
            deeds.push(Deed::Say(leg));
        }
    }

    fn acknowledged(&mut self, leg: Leg, deeds: &mut Vec<Deed<P>>) {
        let stage = self.legs.get_mut(&leg).filter(|stage| R::awaits_answer(**stage == Stage::Ready));
        if let Some(stage) = stage {
            *stage = Stage::Ready;
            deeds.push(Deed::Tell(leg, Outcome::Ready));
        }
    }

    fn lose(&mut self, deeds: &mut Vec<Deed<P>>) {
        self.legs.retain(|leg, stage| {
            let ended = R::ends_with_its_connection(*stage == Stage::Ready);
            if ended {
                deeds.push(Deed::Tell(*leg, Outcome::Disconnected));
            }
            !ended
        });
    }
}
