//! Ranks run forwards together, each forward once its request is ready on every rank.
//!
//! `cargo run` explores everything that may happen, and says whether the protocol holds. As it
//! stands it does not: look at the counterexample, then at `Rank::next`.

use std::process::ExitCode;

use lockstep_model::protocol::{self, prelude::*};

/// Where the ranks meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Site {
    /// Whether the request is ready on every rank.
    Poll,
    /// One forward pass.
    Forward,
}

// A rank waits for either. For a collective whose outcome it takes later, implement `SiteName`.
blocking_sites!(Site);

impl Meeting for Site {
    fn collective(self) -> Collective {
        match self {
            Self::Poll => Collective::of(Operation::Minimum),
            Self::Forward => Collective::of(Operation::Barrier),
        }
    }
}

/// What reaches one rank alone, at a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fact {
    /// The request is ready here.
    Ready,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rank {
    /// Local: this rank's request is ready.
    ready: bool,
    /// Agreed: the last poll found it ready on every rank.
    all_ready: bool,
}

impl Rank {
    /// The collective that this rank enters next.
    fn next(&self) -> Posted<Site> {
        // BUG: a skip behind a local guard. The poll seems needless to a rank that is ready, but
        // another rank may not be, and enters it. Whether a collective is entered must follow from
        // what came out of one: decide by `self.all_ready`.
        if self.ready {
            Site::Forward.enter(1)
        } else {
            Site::Poll.bring([u64::from(self.ready)])
        }
    }
}

impl RankProgram for Rank {
    type Site = Site;
    type Fact = Fact;
    type Entry = Posted<Site>;
    /// What a rank does alone, such as sending a message. Nothing here.
    type Local = ();

    fn step(&mut self, event: Event<Fact, Site>, effects: &mut Vec<Effect<Posted<Site>, ()>>) {
        match event {
            Event::Fact(Fact::Ready) => self.ready = true,
            Event::Turn => effects.push(Effect::Enter(self.next())),
            Event::Completed { ticket, payload } => match ticket.site {
                Site::Poll => self.all_ready = payload == [1],
                Site::Forward => {
                    *self = Self {
                        ready: false,
                        all_ready: false,
                    }
                }
            },
        }
    }
}

// No number of a rank grows without bound. Where one does, implement `Counters`.
no_counters!(Rank);

/// The protocol at one size.
#[derive(Debug)]
struct Forwards {
    ranks: usize,
}

impl Protocol for Forwards {
    type Rank = Rank;
    type Around = ();

    fn ranks(&self) -> Vec<Rank> {
        vec![
            Rank {
                ready: false,
                all_ready: false
            };
            self.ranks
        ]
    }

    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<Fact> {
        if state.ranks[rank].ready {
            vec![]
        } else {
            vec![Fact::Ready]
        }
    }

    fn claims(&self, claims: &mut Claims<Self>) {
        claims.always(
            "ready-before-forward",
            "Only what is ready runs.",
            |_, state| {
                let runs = |rank| {
                    state
                        .entered(rank)
                        .any(|ticket| ticket.site == Site::Forward)
                };
                (0..state.ranks.len()).all(|rank| state.ranks[rank].ready || !runs(rank))
            },
        );
        claims.reaches("a forward after a poll", |_, state| {
            state.ranks.iter().all(|rank| rank.all_ready)
        });
    }
}

fn main() -> ExitCode {
    protocol::main([
        protocol::holds("two-ranks", Forwards { ranks: 2 }),
        protocol::holds("three-ranks", Forwards { ranks: 3 }),
    ])
}
