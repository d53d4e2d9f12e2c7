//! The start of a group: what its ranks have and can do, agreed before the first round.
//!
//! ```text
//!                 offered                      all can connect
//! Probing ─ Offers, Turn ─▶ Offering ──┬── name ──▶ Naming ── [ Connect ] ──┐
//!                                      └── none ───────────────────────────┴▶ Preparing ─ Prepared, Turn ─▶ Readying ──▶ Started
//! ```
//! What a rank alone can tell (its free memory, whether its device joins a communicator, whether its graphs were captured) is payload of
//! two votes that every rank enters. What follows is agreed: the pages of the pool are the fewest that any rank offers; the device
//! communicator is joined by all or by none; it is kept if all have joined it and given up by all otherwise; forwards are replayed from
//! captured graphs if all ranks have theirs, and launched eagerly by all otherwise. Preparing takes as long as a rank's own deadlines let
//! it, and ends in a fact either way, so no rank waits in the second vote for one that stays away.
//!
//! The product is a [`GroupConfiguration`] with which [`crate::machine::RankMachine`] goes round: the proposal, less what not every rank has.

mod rules;

pub use rules::{Rules, Shipped};

use crate::agreed::{Agreed, Entry, Words, complete};
use crate::configuration::{Collectives, ConfigurationError, Forwards, GroupConfiguration};
use crate::counters::{Counter, Counters};
use crate::fault::{Fault, Identity};
use crate::ids::{Epoch, RankIndex, Round};
use crate::program::{Effect, Event, RankProgram};
use crate::ticket::{Kind, Site, Ticket};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Words of a device communicator's name: the 128 bytes of NCCL's unique id.
pub const NAME_WORDS: usize = 16;

/// What one rank found that it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// KV pages that fit.
    pub pages: u32,
    /// Whether its device can join a communicator.
    pub connects: bool,
    /// The communicator's name, [`NAME_WORDS`] words: read from the leader, which cannot offer to connect without.
    pub name: Words,
}

/// What came of a rank's preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preparation {
    /// It has joined the device communicator.
    pub connected: bool,
    /// It has captured the graphs of its forwards.
    pub captured: bool,
}

/// What reaches a rank that starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// It has looked at its device.
    Offers(Offer),
    /// It has prepared what it was told to, or has given up: it always comes.
    Prepared(Preparation),
}

/// What a rank that starts does alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    /// It takes memory for so many pages, finishes joining the communicator of this name, if there is one, and captures its graphs.
    Prepare {
        /// Pages of the pool.
        pages: u32,
        /// The communicator; none if the group's collectives run between the hosts.
        name: Option<Words>,
    },
    /// It gives up the communicator that it has joined, or tried to.
    Disconnect,
}

/// What the ranks agreed on before they prepare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Common {
    pages: u32,
    connects: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Position {
    Probing(Option<Offer>),
    Offering { ticket: Agreed<Ticket>, name: Words },
    Naming { ticket: Agreed<Ticket>, common: Agreed<Common> },
    Preparing { common: Agreed<Common>, found: Option<Preparation> },
    Readying { ticket: Agreed<Ticket>, common: Agreed<Common> },
    Started(Agreed<Arc<GroupConfiguration>>),
    Faulted,
}

type Effects = Vec<Effect<Entry, Deed>>;

/// One rank of a group that starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Starting<R = Shipped> {
    proposal: Arc<GroupConfiguration>,
    rank: RankIndex,
    position: Position,
    rules: PhantomData<R>,
}

impl<R: Rules> Starting<R> {
    /// A rank of a group that is to have `proposal` at most.
    ///
    /// # Errors
    /// A configuration that no group can run with.
    pub fn new(proposal: Arc<GroupConfiguration>, rank: RankIndex) -> Result<Self, ConfigurationError> {
        proposal.validate_for(rank)?;
        Ok(Self { proposal, rank, position: Position::Probing(None), rules: PhantomData })
    }

    /// The configuration of the group, once it has started.
    #[must_use]
    pub fn started(&self) -> Option<&Agreed<Arc<GroupConfiguration>>> {
        match &self.position {
            Position::Started(configuration) => Some(configuration),
            Position::Probing(_)
            | Position::Offering { .. }
            | Position::Naming { .. }
            | Position::Preparing { .. }
            | Position::Readying { .. }
            | Position::Faulted => None,
        }
    }

    fn ticket(&self, place: fn(&GroupConfiguration) -> (Site, Kind, u64)) -> Agreed<Ticket> {
        let place = Agreed::configured(&self.proposal, place);
        place.map_with(&self.proposal, |proposal, (site, kind, shape)| Ticket {
            epoch: proposal.epoch,
            round: Round(0),
            site,
            kind,
            shape,
        })
    }

    /// Enters the collective that follows from where the rank stands, if it has what it must bring there.
    fn turn(&mut self, effects: &mut Effects) {
        match &self.position {
            Position::Probing(Some(Offer { pages, connects, name })) => {
                let named = self.rank.0 > 0 || name.len() == NAME_WORDS;
                let (terms, Epoch(epoch)) = (self.proposal.terms(), self.proposal.epoch);
                let payload =
                    vec![terms, !terms, epoch, !epoch, u64::from(*pages), u64::from(*connects && named)];
                let name = if self.rank.0 == 0 { name.clone() } else { Words::new() };
                let ticket = self.ticket(|_| (Site::Offer, Kind::MinReduce, 6));
                effects.push(Effect::Enter(Entry::new(&ticket, payload)));
                self.position = Position::Offering { ticket, name };
            }
            Position::Preparing { common, found: Some(Preparation { connected, captured }) } => {
                let common = common.clone();
                let payload = vec![u64::from(*connected), u64::from(*captured)];
                let ticket = self.ticket(|_| (Site::Ready, Kind::MinReduce, 2));
                effects.push(Effect::Enter(Entry::new(&ticket, payload)));
                self.position = Position::Readying { ticket, common };
            }
            Position::Probing(None)
            | Position::Preparing { found: None, .. }
            | Position::Offering { .. }
            | Position::Naming { .. }
            | Position::Readying { .. }
            | Position::Started(_)
            | Position::Faulted => {}
        }
    }

    /// A fact that comes when it is not waited for changes nothing.
    fn absorb(&mut self, fact: Fact) {
        match (&mut self.position, fact) {
            (Position::Probing(offer), Fact::Offers(found)) => *offer = Some(found),
            (Position::Preparing { found, .. }, Fact::Prepared(preparation)) => *found = Some(preparation),
            (
                Position::Probing(_)
                | Position::Offering { .. }
                | Position::Naming { .. }
                | Position::Preparing { .. }
                | Position::Readying { .. }
                | Position::Started(_)
                | Position::Faulted,
                Fact::Offers(_) | Fact::Prepared(_),
            ) => {}
        }
    }

    fn completed(&mut self, ticket: Ticket, payload: Words, effects: &mut Effects) -> Result<(), Fault> {
        if ticket.site == Site::Connect {
            // How joining went is told by the fact that the rank is prepared, which may come before or after.
            return Ok(());
        }
        match core::mem::replace(&mut self.position, Position::Faulted) {
            Position::Offering { ticket: expected, name } => {
                let common = complete(&expected, ticket, payload)?.map_with(&self.proposal, common::<R>);
                self.offered(common.transpose_result()?, name, effects);
            }
            Position::Naming { ticket: expected, common } => {
                let name = complete(&expected, ticket, payload)?;
                let joining =
                    self.ticket(|proposal| (Site::Connect, Kind::Connect, u64::from(proposal.ranks)));
                effects.push(Effect::Enter(Entry::new(&joining, Words::new())));
                self.prepare(common, Some(name.value().clone()), effects);
            }
            Position::Readying { ticket: expected, common } => {
                let ready = complete(&expected, ticket, payload)?;
                self.start(common.zip(ready), effects);
            }
            waiting @ (Position::Probing(_) | Position::Preparing { .. } | Position::Started(_)) => {
                self.position = waiting;
                return Err(Fault::Unasked(ticket));
            }
            Position::Faulted => {}
        }
        Ok(())
    }

    /// All offers are known: whether there is a communicator to be joined depends on nothing else.
    fn offered(&mut self, common: Agreed<Common>, name: Words, effects: &mut Effects) {
        let naming = common.as_ref().map_with(&self.proposal, |proposal, common| {
            common.connects.then_some(Ticket {
                epoch: proposal.epoch,
                round: Round(0),
                site: Site::Name,
                kind: Kind::Broadcast,
                shape: NAME_WORDS as u64,
            })
        });
        match naming.transpose() {
            Some(ticket) => {
                effects.push(Effect::Enter(Entry::new(&ticket, name)));
                self.position = Position::Naming { ticket, common };
            }
            None => self.prepare(common, None, effects),
        }
    }

    fn prepare(&mut self, common: Agreed<Common>, name: Option<Words>, effects: &mut Effects) {
        effects.push(Effect::Local(Deed::Prepare { pages: common.value().pages, name }));
        self.position = Position::Preparing { common, found: None };
    }

    fn start(&mut self, agreed: Agreed<(Common, Words)>, effects: &mut Effects) {
        let connects = agreed.value().0.connects;
        let configuration = agreed.map_with(&self.proposal, configuration::<R>);
        if R::gives_up(connects, configuration.value().collectives == Collectives::Device) {
            effects.push(Effect::Local(Deed::Disconnect));
        }
        self.position = Position::Started(configuration.map(Arc::new));
    }
}

/// What follows from the least that any rank offers.
fn common<R: Rules>(proposal: &GroupConfiguration, offers: Words) -> Result<Common, Fault> {
    let equal = |at: usize| offers[at] == !offers[at + 1];
    let offered = u32::try_from(offers[4]).unwrap_or(u32::MAX);
    match (equal(0), equal(2), R::pages(proposal.pages, offered)) {
        (false, _, _) => Err(Fault::Diverged(Identity::Terms)),
        (true, false, _) => Err(Fault::Diverged(Identity::Epoch)),
        (true, true, 0) => Err(Fault::NoRoom),
        (true, true, pages) => Ok(Common {
            pages,
            connects: R::connects(proposal.collectives == Collectives::Device, offers[5] == 1),
        }),
    }
}

/// What follows from what all ranks have prepared.
fn configuration<R: Rules>(
    proposal: &GroupConfiguration,
    (common, ready): (Common, Words),
) -> GroupConfiguration {
    let connected = R::keeps(common.connects, ready[0] == 1);
    let captured = R::captures(proposal.forwards == Forwards::Captured, ready[1] == 1);
    GroupConfiguration {
        pages: common.pages,
        collectives: if connected { Collectives::Device } else { Collectives::Host },
        forwards: if captured { Forwards::Captured } else { Forwards::Eager },
        ..proposal.clone()
    }
}

impl<R: Rules> RankProgram for Starting<R> {
    type Site = Site;
    type Fact = Fact;
    type Entry = Entry;
    type Local = Deed;

    fn step(&mut self, event: Event<Fact, Site>, effects: &mut Effects) {
        let stepped = match event {
            Event::Turn => {
                self.turn(effects);
                Ok(())
            }
            Event::Fact(fact) => {
                self.absorb(fact);
                Ok(())
            }
            Event::Completed { ticket, payload } => self.completed(ticket, payload, effects),
        };
        if let Err(fault) = stepped {
            self.position = Position::Faulted;
            effects.push(Effect::Fault(fault));
        }
    }
}

impl<R> Counters for Starting<R> {
    /// A start has no counter that grows.
    fn visit(&mut self, _: &mut dyn FnMut(Counter, &mut u64)) {}
}
