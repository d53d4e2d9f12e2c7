//! Speculative decoding: ranks verify a draft of two tokens together, and each finds how many of them it accepts.
//!
//! Equal weights do not make equal numbers: ranks that sum in another order, or sample, may accept another length. The length is the shape
//! of the next verification, and how far the cache is rolled back. Three rules that look right:
//! * `OwnLength`: each rank goes on with the length that it found. The next verification has two shapes.
//! * `FullIsSure`: where all is accepted there is nothing to agree on. A rank that accepted less waits in the agreement alone.
//! * `KeepsTail`: ranks agree on the length, and roll back to their own. All collectives match, and the tokens are wrong.

use lockstep_model::protocol::{self, prelude::*};

/// Tokens of a draft.
const DRAFT: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Site {
    /// The accepted length.
    Length,
    /// A forward over what was kept of the last draft's end, and the next draft.
    Verify,
}

blocking_sites!(Site);

impl Meeting for Site {
    fn collective(self) -> Collective {
        match self {
            Self::Length => Collective::of(Operation::Minimum),
            Self::Verify => Collective::of(Operation::Barrier),
        }
    }
}

/// This rank accepts so many tokens of the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Accepts(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    OwnLength,
    FullIsSure,
    KeepsTail,
    Agreed,
}

/// Where a rank is with the last draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Draft {
    /// It is verified, and the device has not said yet how much is accepted.
    Verified,
    /// Local: so much is accepted here.
    Accepted(u64),
    /// Agreed, or taken for it: so much is kept.
    Kept(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rank {
    rule: Rule,
    draft: Draft,
    /// Tokens of the last draft that are in this rank's cache, now and when it began to verify.
    cached: u64,
    began: u64,
}

impl Rank {
    /// What follows once so many tokens are accepted here.
    fn accept(&mut self, length: u64) {
        self.draft = match self.rule {
            Rule::OwnLength => Draft::Kept(length),
            Rule::FullIsSure if length == DRAFT => Draft::Kept(length),
            Rule::FullIsSure | Rule::KeepsTail | Rule::Agreed => Draft::Accepted(length),
        };
        self.cached = length;
    }

    fn agree(&mut self, length: u64) {
        self.draft = Draft::Kept(length);
        if self.rule != Rule::KeepsTail {
            self.cached = length;
        }
    }
}

impl RankProgram for Rank {
    type Site = Site;
    type Fact = Accepts;
    type Entry = Posted<Site>;
    type Local = ();

    fn step(&mut self, event: Event<Accepts, Site>, effects: &mut Vec<Effect<Posted<Site>, ()>>) {
        match event {
            Event::Fact(Accepts(length)) => self.accept(length),
            Event::Turn => match self.draft {
                Draft::Verified => {}
                Draft::Accepted(length) => effects.push(Effect::Enter(Site::Length.bring([length]))),
                Draft::Kept(length) => {
                    self.began = self.cached;
                    effects.push(Effect::Enter(Site::Verify.enter(length + DRAFT)));
                }
            },
            Event::Completed { ticket, payload } => match ticket.site {
                Site::Length => self.agree(payload[0]),
                Site::Verify => (self.draft, self.cached) = (Draft::Verified, DRAFT),
            },
        }
    }
}

no_counters!(Rank);

#[derive(Debug)]
struct Speculation(Rule, usize);

impl Protocol for Speculation {
    type Rank = Rank;
    type Around = ();

    fn ranks(&self) -> Vec<Rank> {
        vec![Rank { rule: self.0, draft: Draft::Kept(0), cached: 0, began: 0 }; self.1]
    }

    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<Accepts> {
        let lengths = (state.ranks[rank].draft == Draft::Verified).then_some(0..=DRAFT);
        lengths.into_iter().flatten().map(Accepts).collect()
    }

    fn claims(&self, claims: &mut Claims<Self>) {
        let equal = |_: &_, state: &StateOf<Self>| {
            let verified = state.ranks.iter().filter(|rank| rank.draft == Draft::Verified);
            let mut began = verified.map(|rank| rank.began);
            began.next().is_none_or(|first| began.all(|other| other == first))
        };
        claims.always("equal-caches", "Ranks that verify together have cached the same tokens.", equal);
        claims.reaches("ranks accept different lengths", |_, state| {
            let accepted = [0, DRAFT].map(Draft::Accepted);
            accepted.iter().all(|draft| state.ranks.iter().any(|rank| rank.draft == *draft))
        });
    }
}

fn main() -> std::process::ExitCode {
    protocol::main([
        protocol::violates("own-length", "matched", Speculation(Rule::OwnLength, 2)),
        protocol::violates("full-is-sure", "matched", Speculation(Rule::FullIsSure, 2)),
        protocol::violates("keeps-tail", "equal-caches", Speculation(Rule::KeepsTail, 2)),
        protocol::holds("agreed", Speculation(Rule::Agreed, 2)),
        protocol::holds("agreed-of-three", Speculation(Rule::Agreed, 3)),
    ])
}
