//! The start of a group as a protocol: the real [`Starting`], every offer, every outcome of a preparation, and the starts that fail.
//!
//! Reading order: this file (the shipped start and what is said of it), `mutants` (one rule broken at a time), `conventional` (what a rank
//! decides by itself in engines in use).

pub mod conventional;
pub mod mutants;

use std::sync::Arc;

use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::ids::{Epoch, RankIndex};
use lockstep_spec::invariant::{agreed_equal, start_sound};
use lockstep_spec::start::{Deed, Fact, NAME_WORDS, Offer, Preparation, Rules, Starting};
use lockstep_spec::ticket::Site;

use crate::protocol::cells;
use crate::protocol::prelude::*;

impl Meeting for Site {
    fn collective(self) -> Collective {
        match self {
            Self::Offer | Self::Ready | Self::Vote | Self::StreamVote => Collective::of(Operation::Minimum),
            Self::Name | Self::Brief => Collective::of(Operation::Broadcast { root: 0 }),
            Self::Connect | Self::Forward => Collective::of(Operation::Barrier),
        }
    }
}

/// Ranks that start.
#[derive(Debug)]
pub struct Start<R> {
    proposal: Arc<GroupConfiguration>,
    rules: std::marker::PhantomData<fn() -> R>,
}

/// What came to each rank, and what it did: what an observer of the whole group sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Around(Vec<Seen>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Seen {
    offer: Option<Offer>,
    /// Whether it was told to prepare, and with a communicator.
    prepares: Option<bool>,
    preparation: Option<Preparation>,
    disconnected: bool,
}

impl Around {
    fn of(&mut self, rank: usize) -> &mut Seen {
        let ranks = self.0.len().max(rank + 1);
        self.0.resize(ranks, Seen::default());
        &mut self.0[rank]
    }

    fn seen(&self, rank: usize) -> Option<&Seen> {
        self.0.get(rank)
    }
}

/// Most pages that a rank offers.
const MOST_PAGES: u32 = 2;

impl<R: Rules> Start<R> {
    /// A group of so many ranks, which is to use device collectives and captured forwards if it can.
    #[must_use]
    pub fn new(ranks: u32) -> Self {
        let proposal = GroupConfiguration {
            epoch: Epoch(0),
            ranks,
            slots: 1,
            pages: MOST_PAGES,
            page_size: 1,
            flights: 1,
            chunk_tokens: 1,
            prefix_pages: 0,
            host_pages: 0,
            brief_words: GroupConfiguration::least_brief_words(1),
            deadline_ticks: 1,
            stop_tokens: Vec::new(),
            collectives: Collectives::Device,
            forwards: Forwards::Captured,
            votes: Votes::Host,
        };
        Self { proposal: Arc::new(proposal), rules: std::marker::PhantomData }
    }

    /// The same, which is to use these.
    #[must_use]
    pub fn proposing(mut self, collectives: Collectives, forwards: Forwards) -> Self {
        let proposal = Arc::make_mut(&mut self.proposal);
        (proposal.collectives, proposal.forwards) = (collectives, forwards);
        self
    }
}

/// The configuration that a rank has started with.
fn started<R: Rules>(rank: &Starting<R>) -> Option<&GroupConfiguration> {
    rank.started().map(|configuration| configuration.value().as_ref())
}

fn some_started<R: Rules>(state: &StateOf<Start<R>>, with: fn(&GroupConfiguration) -> bool) -> bool {
    state.ranks.iter().filter_map(started).any(with)
}

impl<R: Rules> Protocol for Start<R> {
    type Rank = Starting<R>;
    type Around = Around;

    fn ranks(&self) -> Vec<Starting<R>> {
        let rank = |rank| Starting::new(Arc::clone(&self.proposal), RankIndex(rank)).ok();
        (0..self.proposal.ranks).filter_map(rank).collect()
    }

    /// A rank offers anything. It has joined the communicator only if every rank has come; it may fail in that at any time, which stands
    /// for its own deadline too; graphs may be captured or not.
    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<Fact> {
        let seen = state.around.seen(rank);
        if seen.is_none_or(|seen| seen.offer.is_none()) {
            return offers(rank).map(Fact::Offers).collect();
        }
        let waiting = seen.filter(|seen| seen.preparation.is_none()).and_then(|seen| seen.prepares);
        let Some(connects) = waiting else { return Vec::new() };
        let met = connects && state.entered(rank).all(|ticket| ticket.site != Site::Connect);
        let preparations = [(true, true), (true, false), (false, true), (false, false)];
        let possible = preparations.into_iter().filter(|(connected, _)| met || !connected);
        possible.map(|(connected, captured)| Fact::Prepared(Preparation { connected, captured })).collect()
    }

    fn delivered(&self, around: &mut Around, rank: usize, fact: &Fact) {
        match fact {
            Fact::Offers(offer) => around.of(rank).offer = Some(offer.clone()),
            Fact::Prepared(preparation) => around.of(rank).preparation = Some(*preparation),
        }
    }

    fn perform(&self, around: &mut Around, rank: usize, deed: &Deed) {
        match deed {
            Deed::Prepare { name, .. } => around.of(rank).prepares = Some(name.is_some()),
            Deed::Disconnect => around.of(rank).disconnected = true,
        }
    }

    fn describe(&self, rank: &Starting<R>) -> Vec<(String, String)> {
        cells(rank).into_iter().filter(|(field, _)| field == "position").collect()
    }

    fn rested(&self, state: &StateOf<Self>) -> bool {
        state.ranks.iter().all(|rank| rank.started().is_some())
    }

    fn claims(&self, claims: &mut Claims<Self>) {
        claims.always(agreed_equal::PROPERTY.id, agreed_equal::PROPERTY.sentence, |_, state| {
            let mut all = state.ranks.iter().filter_map(started);
            all.next().is_none_or(|first| all.all(|other| other == first))
        });
        claims.always(start_sound::PROPERTY.id, start_sound::PROPERTY.sentence, |checked, state| {
            sound(&checked.0.proposal, state)
        });
        let (devices, captures) = (device(&self.proposal), captured(&self.proposal));
        if devices && captures {
            claims.reaches("device collectives, captured forwards", |_, state| {
                some_started(state, |with| device(with) && captured(with))
            });
        }
        if devices {
            claims.reaches("device collectives, eager forwards", |_, state| {
                some_started(state, |with| device(with) && !captured(with))
            });
            claims.reaches("a communicator given up", |_, state| {
                state.around.0.iter().any(|seen| seen.disconnected)
            });
        }
        if captures {
            claims.reaches("host collectives, captured forwards", |_, state| {
                some_started(state, |with| !device(with) && captured(with))
            });
        }
        if self.proposal.ranks == 1 {
            return;
        }
        claims.reaches("fewer pages than one rank offers", |_, state| {
            some_started(state, |with| with.pages < MOST_PAGES)
                && state
                    .around
                    .0
                    .iter()
                    .any(|seen| seen.offer.as_ref().is_some_and(|offer| offer.pages == MOST_PAGES))
        });
    }
}

/// All offers of a rank. Only the leader's name is read; without one it cannot offer to connect.
fn offers(rank: usize) -> impl Iterator<Item = Offer> {
    let name = move |connects: bool| if connects && rank == 0 { vec![1; NAME_WORDS] } else { Words::new() };
    let each = [(1, false), (1, true), (MOST_PAGES, false), (MOST_PAGES, true)].into_iter();
    each.map(move |(pages, connects)| Offer { pages, connects, name: name(connects) })
}

fn device(started: &GroupConfiguration) -> bool {
    started.collectives == Collectives::Device
}

fn captured(started: &GroupConfiguration) -> bool {
    started.forwards == Forwards::Captured
}

/// Whether those who have started may, with no more than was proposed, and hold the communicator if and only if it is used.
fn sound<R: Rules>(proposal: &GroupConfiguration, state: &StateOf<Start<R>>) -> bool {
    let all: Option<Vec<(&Offer, Preparation)>> =
        state.around.0.iter().map(|seen| Some((seen.offer.as_ref()?, seen.preparation?))).collect();
    let each = state.ranks.iter().zip(&state.around.0);
    each.filter_map(|(rank, seen)| Some((started(rank)?, seen))).all(|(with, seen)| {
        let joined = seen.preparation.is_some_and(|preparation| preparation.connected);
        let holds = joined && !seen.disconnected;
        let proposed = (device(proposal) || !device(with)) && (captured(proposal) || !captured(with));
        holds == device(with) && proposed && all.as_ref().is_some_and(|all| start_sound::holds(with, all))
    })
}
