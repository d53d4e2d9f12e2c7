//! One rank that is its whole group. The test is its transport, and may have the group agree on what the rank has not seen.

use lockstep_spec::agreed::{Entry, Words};
use lockstep_spec::brief::Brief;
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow, SlotEvidence};
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::fault::Fault;
use lockstep_spec::ids::{
    Attempt, BlockKey, Epoch, Generation, Leg, RankIndex, RequestId, SlotIndex, TokenId,
};
use lockstep_spec::machine::{Fact, Local, Position, RankMachine};
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::PrefillLeg;
use lockstep_spec::program::{Effect, Event, RankProgram};
use lockstep_spec::role::Role;
use lockstep_spec::table::State;
use lockstep_spec::ticket::{Site, SiteName, Ticket};
use std::sync::Arc;

/// Words of a vote, as the module `vote` lays them out; the last three are the first slot's.
pub(crate) const BRIEF_WORDS: usize = 10;
pub(crate) const RETIRED: usize = 11;
pub(crate) const COPIED: usize = 12;
pub(crate) const TOKENS: usize = 13;
pub(crate) const POLL: usize = 17;
pub(crate) const FIRST_TOKEN: usize = 18;
pub(crate) const DRAINED: usize = 20;

pub(crate) const EOS: TokenId = TokenId(9);
pub(crate) const ORDINARY: TokenId = TokenId(3);

pub(crate) type Effects<R> = Vec<Effect<Entry, Local<<R as Role>::Effect>>>;

pub(crate) fn configuration() -> GroupConfiguration {
    GroupConfiguration {
        epoch: Epoch(1),
        ranks: 1,
        slots: 2,
        pages: 4,
        page_size: 2,
        flights: 1,
        prefix_pages: 0,
        host_pages: 0,
        brief_words: GroupConfiguration::least_brief_words(2),
        chunk_tokens: 8,
        deadline_ticks: 3,
        stop_tokens: vec![EOS],
        collectives: Collectives::Host,
        forwards: Forwards::Eager,
        votes: Votes::Host,
    }
}

/// What a rank does alone, of all that it does.
pub(crate) fn deeds<R: Role>(effects: Effects<R>) -> Vec<R::Effect> {
    let deed = |effect| if let Effect::Local(Local::Role(deed)) = effect { Some(deed) } else { None };
    effects.into_iter().filter_map(deed).collect()
}

/// The brief that the rank entered, if it had something to say.
pub(crate) fn briefed<R: Role>(effects: &Effects<R>) -> Option<Brief<R::Arrival>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Enter(entry) if entry.ticket().site == Site::Brief => Brief::decode(entry.payload()).ok(),
        Effect::Enter(_) | Effect::Local(_) | Effect::Fault(_) | Effect::Leave => None,
    })
}

#[derive(Clone)]
pub(crate) struct Alone<R: Role> {
    pub(crate) machine: RankMachine<R>,
}

impl<R: Role> Alone<R> {
    pub(crate) fn new(configuration: GroupConfiguration) -> Self {
        let machine = RankMachine::new(Arc::new(configuration), RankIndex(0));
        Self { machine: machine.expect("the configuration is valid") }
    }

    fn step(&mut self, event: Event<Fact<R::Arrival, R::Fact>, Site>) -> Effects<R> {
        let mut effects = Vec::new();
        self.machine.step(event, &mut effects);
        effects
    }

    pub(crate) fn fact(&mut self, fact: Fact<R::Arrival, R::Fact>) -> Effects<R> {
        self.step(Event::Fact(fact))
    }

    /// Enters the vote, which does not complete.
    pub(crate) fn turn(&mut self) -> Effects<R> {
        self.step(Event::Turn)
    }

    pub(crate) fn round(&mut self) -> Effects<R> {
        self.agree(&[], None)
    }

    /// A round in which the group agrees on these words of the vote and on this brief, whatever the rank itself says.
    pub(crate) fn agree(&mut self, vote: &[(usize, u64)], brief: Option<&Brief<R::Arrival>>) -> Effects<R> {
        let brief = brief.map(Brief::encode);
        let (mut effects, mut completed) = (self.turn(), 0);
        while let Some((ticket, mut payload)) = awaited::<R>(&effects[completed..]) {
            completed = effects.len();
            match &brief {
                Some(words) if ticket.site == Site::Brief => payload.clone_from(words),
                Some(words) => payload[BRIEF_WORDS] = words.len() as u64,
                None => {}
            }
            if ticket.site == Site::Vote {
                vote.iter().for_each(|(at, word)| payload[*at] = *word);
            }
            effects.extend(self.step(Event::Completed { ticket, payload }));
        }
        effects
    }

    /// The device finishes the oldest forward in flight, if there is one, with the same token for each row.
    pub(crate) fn retire(&mut self, token: TokenId) {
        let Some(flight) = self.state().flights.queue.first() else { return };
        let (forward, tokens) = (flight.id, vec![token; flight.rows.len()]);
        self.fact(Fact::Retired { forward, tokens });
    }

    /// The device finishes all copies that are outstanding.
    pub(crate) fn copy(&mut self) {
        let copies: Vec<_> = self.state().host.copies().iter().map(|copy| copy.id).collect();
        copies.into_iter().for_each(|copy| drop(self.fact(Fact::Copied(copy))));
    }

    pub(crate) fn state(&self) -> &State<R::Occupant> {
        self.machine.state().value()
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        if let Position::Faulted(fault) = self.machine.position() { Some(*fault) } else { None }
    }
}

fn awaited<R: Role>(effects: &[Effect<Entry, Local<R::Effect>>]) -> Option<(Ticket, Words)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Enter(entry) if entry.ticket().site.awaited() => {
            Some((*entry.ticket(), entry.payload().to_vec()))
        }
        Effect::Enter(_) | Effect::Local(_) | Effect::Fault(_) | Effect::Leave => None,
    })
}

pub(crate) fn request(id: u64, prompt_tokens: u32, max_tokens: u32) -> Request {
    let (id, sampling) = (RequestId(id), Sampling::GREEDY);
    Request { id, prompt_tokens, max_tokens, generated: 0, ignore_eos: false, sampling }
}

pub(crate) fn row(echo: Leg, token: TokenId) -> LegFact {
    LegFact::RowLanded(MetadataRow { echo, token, sound: true })
}

impl Alone<Decode> {
    /// A request is in the first slot, and its handshake is under way.
    pub(crate) fn bootstrapping(configuration: GroupConfiguration, request: Request) -> Self {
        let mut rank = Self::new(configuration);
        rank.fact(Fact::Submitted(request));
        rank.round();
        rank
    }

    /// The publication of its pages is decided.
    pub(crate) fn transferring(configuration: GroupConfiguration, request: Request) -> Self {
        let mut rank = Self::bootstrapping(configuration, request);
        rank.hear(0, &[LegFact::HandshakeDone]);
        rank.round();
        rank
    }

    /// Its first token, an ordinary one, is accepted, and its first forward is in flight.
    pub(crate) fn running(configuration: GroupConfiguration, request: Request) -> Self {
        let mut rank = Self::transferring(configuration, request);
        rank.land(0, ORDINARY);
        rank
    }

    pub(crate) fn leg(&self, slot: u32) -> Leg {
        self.state().leg(Epoch(1), SlotIndex(slot)).expect("there is such a slot")
    }

    /// Lets facts of a slot's current attempt reach the rank.
    pub(crate) fn hear(&mut self, slot: u32, facts: &[LegFact]) {
        let leg = self.leg(slot);
        for fact in facts {
            self.fact(Fact::Role((leg, *fact)));
        }
    }

    /// A slot's transfer ends well, in the round after which it may run; returns what that round does.
    pub(crate) fn land(&mut self, slot: u32, token: TokenId) -> Effects<Decode> {
        self.hear(slot, &[LegFact::PagesLanded, row(self.leg(slot), token)]);
        let effects = self.round();
        self.hear(slot, &[LegFact::Fenced]);
        self.round();
        effects
    }

    pub(crate) fn seen(&self, slot: usize) -> SlotEvidence {
        self.machine.evidence().slots[slot]
    }
}

/// A leg of a decode slot of its own, by its place in acceptance order.
pub(crate) fn leg(id: u32) -> Leg {
    Leg { epoch: Epoch(0), slot: SlotIndex(id), generation: Generation(1), attempt: Attempt(0) }
}

pub(crate) fn prefill_leg(id: u32, tokens: u32, keys: &[u64]) -> PrefillLeg {
    let keys = keys.iter().map(|key| BlockKey([0, *key])).collect();
    PrefillLeg { id: RequestId(u64::from(id)), leg: leg(id), tokens, keys }
}

impl Alone<Prefill> {
    /// A leg is submitted and listed, and its first chunk is in flight if there is room.
    pub(crate) fn start(&mut self, arrival: PrefillLeg) {
        let leg = arrival.leg;
        self.fact(Fact::Submitted(arrival));
        self.fact(Fact::Role((leg, WriteFact::Listed)));
        self.round();
        self.round();
    }

    /// A leg is taken from its submission to its end; returns what the rounds did in which it was computed.
    pub(crate) fn compute(&mut self, arrival: PrefillLeg) -> Effects<Prefill> {
        let leg = arrival.leg;
        self.start(arrival);
        let mut effects = Vec::new();
        while !self.state().flights.queue.is_empty() {
            self.retire(ORDINARY);
            effects.extend(self.round());
            assert_eq!(self.fault(), None);
        }
        self.fact(Fact::Role((leg, WriteFact::Written)));
        self.round();
        effects
    }
}
