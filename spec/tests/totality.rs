//! Totality: whatever reaches a machine, in whatever order, it moves on or faults; it never panics, and its account of pages holds.

use lockstep_spec::agreed::{Entry, Words};
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow};
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::fault::Fault;
use lockstep_spec::ids::{
    Attempt, BlockKey, CopyId, Epoch, ForwardId, Generation, Leg, RankIndex, RequestId, Round, SlotIndex,
    TokenId,
};
use lockstep_spec::invariant;
use lockstep_spec::machine::{Fact, Position, RankMachine};
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::{LegTenant, PrefillLeg};
use lockstep_spec::program::{Effect, Event, RankProgram};
use lockstep_spec::role::Role;
use lockstep_spec::table::State;
use lockstep_spec::ticket::{Kind, Site, SiteName, Ticket};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

const EOS: u32 = 2;

fn configuration(flights: u32, votes: Votes) -> Arc<GroupConfiguration> {
    Arc::new(GroupConfiguration {
        epoch: Epoch(0),
        ranks: 1,
        slots: 2,
        pages: 4,
        page_size: 2,
        flights,
        prefix_pages: 2,
        host_pages: 2,
        brief_words: 28,
        chunk_tokens: 8,
        deadline_ticks: 3,
        stop_tokens: vec![TokenId(EOS)],
        collectives: Collectives::Host,
        forwards: Forwards::Eager,
        votes,
    })
}

/// What a test does to a machine.
#[derive(Clone, Debug)]
enum Deed<A, F> {
    Fact(Fact<A, F>),
    /// A fact about whatever is in this slot now.
    About(SlotIndex, F),
    /// The device finishes its oldest forward in flight, each row with this token.
    Retire(u32),
    /// The device finishes its oldest copy.
    Copied,
    /// A round without mishap.
    Round,
    Turn,
    /// The collective that the machine entered completes, with the words at these places replaced.
    Complete(Vec<(prop::sample::Index, u64)>),
    /// Something completes that the machine may not have entered.
    Stray(Ticket, Words),
    /// The collective that the machine entered completes with another length.
    Misshapen(Words),
}

fn legs() -> impl Strategy<Value = Leg> {
    (prop_oneof![9 => Just(0), 1 => Just(1_u64)], 0..4_u32, 0..4_u64, 0..2_u64).prop_map(
        |(epoch, slot, generation, attempt)| Leg {
            epoch: Epoch(epoch),
            slot: SlotIndex(slot),
            generation: Generation(generation),
            attempt: Attempt(attempt),
        },
    )
}

/// Legs among which repetitions are likely.
fn few_legs() -> impl Strategy<Value = Leg> {
    (0..3_u32, 1..3_u64).prop_map(|(slot, generation)| Leg {
        epoch: Epoch(0),
        slot: SlotIndex(slot),
        generation: Generation(generation),
        attempt: Attempt(0),
    })
}

fn leg_facts() -> impl Strategy<Value = (Leg, LegFact)> {
    let row = (legs(), 0..4_u32, prop::bool::weighted(0.9)).prop_map(|(echo, token, sound)| MetadataRow {
        echo,
        token: TokenId(token),
        sound,
    });
    (legs(), row, prop::bool::weighted(0.9)).prop_flat_map(|(leg, row, mine)| {
        let row = if mine { MetadataRow { echo: leg, ..row } } else { row };
        let fact = prop_oneof![
            4 => Just(LegFact::HandshakeDone),
            1 => Just(LegFact::HandshakeFailed),
            1 => Just(LegFact::Published),
            4 => Just(LegFact::PagesLanded),
            4 => Just(LegFact::RowLanded(row)),
            1 => Just(LegFact::TransferFailed),
            4 => Just(LegFact::Fenced),
        ];
        (Just(leg), fact)
    })
}

fn write_facts() -> impl Strategy<Value = (Leg, WriteFact)> {
    let fact = prop_oneof![
        4 => Just(WriteFact::Listed),
        1 => Just(WriteFact::Revoked),
        3 => Just(WriteFact::Written),
        1 => Just(WriteFact::WriteFailed),
    ];
    (prop_oneof![9 => few_legs(), 1 => legs()], fact)
}

fn samplings() -> impl Strategy<Value = Sampling> {
    (any::<u64>(), any::<u32>()).prop_map(|(seed, temperature_milli)| Sampling { seed, temperature_milli })
}

/// Requests that the front end lets in; it refuses the others at the door.
fn requests() -> impl Strategy<Value = Request> {
    let count = || prop_oneof![8 => 0..5_u32, 1 => Just(u32::MAX)];
    let generated = prop_oneof![4 => Just(0), 1 => 1..3_u32];
    (0..6_u64, count(), count(), generated, any::<bool>(), samplings()).prop_map(
        |(id, prompt_tokens, max_tokens, generated, ignore_eos, sampling)| Request {
            id: RequestId(id),
            prompt_tokens,
            max_tokens,
            generated,
            ignore_eos,
            sampling,
        },
    )
}

fn prefill_legs() -> impl Strategy<Value = PrefillLeg> {
    let tokens = prop_oneof![8 => 0..9_u32, 1 => Just(u32::MAX)];
    // Of a leader that is wrong: keys of pages that are not full, and the same one twice.
    let keys = prop_oneof![
        4 => (0..3_u64).prop_map(|other| vec![BlockKey([0, 9]), BlockKey([0, other])]),
        2 => (0..3_u64).prop_map(|key| vec![BlockKey([0, key])]),
        1 => vec((0..3_u64).prop_map(|key| BlockKey([0, key])), 0..4),
    ];
    (0..6_u64, few_legs(), tokens, keys, prop::bool::weighted(0.9)).prop_map(
        |(id, leg, tokens, mut keys, fits)| {
            if fits {
                keys.truncate(tokens as usize / 2);
            }
            PrefillLeg { id: RequestId(id), leg, tokens, keys }
        },
    )
}

fn facts<A, F>(
    arrivals: impl Strategy<Value = A>,
    facts: impl Strategy<Value = F>,
) -> impl Strategy<Value = Fact<A, F>>
where
    A: Clone + std::fmt::Debug,
    F: Clone + std::fmt::Debug,
{
    prop_oneof![
        8 => arrivals.prop_map(Fact::Submitted),
        10 => facts.prop_map(Fact::Role),
        1 => (0..6_u64).prop_map(|id| Fact::AbortWanted(RequestId(id))),
        1 => any::<bool>().prop_map(Fact::PauseWanted),
        2 => Just(Fact::Tick),
        1 => (0..6_u64).prop_map(|id| Fact::Copied(CopyId(id))),
    ]
}

fn tickets() -> impl Strategy<Value = Ticket> {
    let site = prop::sample::select(&Site::ALL[..]);
    let kind = prop::sample::select(&[Kind::MinReduce, Kind::Broadcast, Kind::Forward, Kind::Connect][..]);
    (0..2_u64, 0..4_u64, site, kind, 0..30_u64).prop_map(|(epoch, round, site, kind, shape)| Ticket {
        epoch: Epoch(epoch),
        round: Round(round),
        site,
        kind,
        shape,
    })
}

fn words() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..12_u64, 2 => Just(u64::MAX), 1 => any::<u64>()]
}

fn deeds<A, F>(
    fact: impl Strategy<Value = Fact<A, F>>,
    about: impl Strategy<Value = F>,
) -> impl Strategy<Value = Vec<Deed<A, F>>>
where
    A: Clone + std::fmt::Debug,
    F: Clone + std::fmt::Debug,
{
    let corrupt = vec((any::<prop::sample::Index>(), words()), 0..3);
    let ends = prop_oneof![
        8 => Just(None),
        1 => Just(Some(Fact::ShutdownWanted)),
        1 => Just(Some(Fact::Broken)),
    ];
    let deed = prop_oneof![
        20 => fact.prop_map(Deed::Fact),
        60 => ((0..2_u32).prop_map(SlotIndex), about).prop_map(|(slot, fact)| Deed::About(slot, fact)),
        12 => (0..4_u32).prop_map(Deed::Retire),
        12 => Just(Deed::Copied),
        30 => Just(Deed::Round),
        2 => Just(Deed::Turn),
    ];
    let last = prop_oneof![
        6 => corrupt.prop_map(Deed::Complete),
        2 => (tickets(), vec(words(), 0..30)).prop_map(|(ticket, words)| Deed::Stray(ticket, words)),
        1 => vec(words(), 0..30).prop_map(Deed::Misshapen),
        1 => (0..4_u64, vec((0..4_u32).prop_map(TokenId), 0..3))
            .prop_map(|(forward, tokens)| Deed::Fact(Fact::Retired { forward: ForwardId(forward), tokens })),
    ];
    (vec(deed, 0..120), ends, vec((prop::bool::weighted(0.7), last), 0..4)).prop_map(
        |(mut deeds, end, last)| {
            deeds.extend(end.map(Deed::Fact));
            for (turn, deed) in last {
                deeds.extend(turn.then_some(Deed::Turn));
                deeds.push(deed);
            }
            deeds
        },
    )
}

/// A role whose facts can be aimed at what is in a slot.
trait Aimed: Role {
    /// The fact, about the leg that is in `slot` now.
    fn aimed(state: &State<Self::Occupant>, slot: SlotIndex, fact: Self::Fact) -> Option<Self::Fact>;
}

impl Aimed for Decode {
    fn aimed(state: &State<Tenant>, slot: SlotIndex, (leg, fact): (Leg, LegFact)) -> Option<(Leg, LegFact)> {
        let current = state.leg(Epoch(0), slot)?;
        let fact = match fact {
            LegFact::RowLanded(row) if row.echo == leg => {
                LegFact::RowLanded(MetadataRow { echo: current, ..row })
            }
            LegFact::RowLanded(_)
            | LegFact::HandshakeDone
            | LegFact::HandshakeFailed
            | LegFact::Published
            | LegFact::PagesLanded
            | LegFact::TransferFailed
            | LegFact::Fenced => fact,
        };
        Some((current, fact))
    }
}

impl Aimed for Prefill {
    fn aimed(
        state: &State<LegTenant>,
        slot: SlotIndex,
        (_, fact): (Leg, WriteFact),
    ) -> Option<(Leg, WriteFact)> {
        Some((state.occupant(slot)?.arrival.leg, fact))
    }
}

/// A machine and the collective that it waits for.
struct Subject<R: Role> {
    configuration: Arc<GroupConfiguration>,
    machine: RankMachine<R>,
    posted: Option<Entry>,
}

impl<R: Aimed> Subject<R> {
    fn new(flights: u32, votes: Votes) -> Self {
        let configuration = configuration(flights, votes);
        let machine =
            RankMachine::new(configuration.clone(), RankIndex(0)).expect("the configuration is valid");
        Self { configuration, machine, posted: None }
    }

    fn step(&mut self, event: Event<Fact<R::Arrival, R::Fact>, Site>) {
        let ended = matches!(self.machine.position(), Position::Left | Position::Faulted(_));
        let mut effects = Vec::new();
        self.machine.step(event, &mut effects);
        assert!(!ended || effects.is_empty(), "who has ended does nothing");
        for effect in effects {
            if let Effect::Enter(entry) = effect
                && entry.ticket().site.awaited()
            {
                self.posted = Some(entry);
            }
        }
        let state = self.machine.state().value();
        let position = self.machine.position();
        assert!(!matches!(position, Position::Faulted(Fault::Invariant(_))), "{position:?}");
        assert!(invariant::pages_sound::holds(&self.configuration, state));
        assert!(invariant::no_write_after_free::holds_for_flights(state));
    }

    /// Completes what was entered; one rank's words are the whole group's.
    fn complete(&mut self, change: impl FnOnce(Words) -> Words) {
        if let Some(entry) = self.posted.take() {
            let payload = change(entry.payload().to_vec());
            self.step(Event::Completed { ticket: *entry.ticket(), payload });
        }
    }

    fn retire(&mut self, token: u32) {
        let flights = &self.machine.state().value().flights.queue;
        if let Some(flight) = flights.get(self.machine.retired_ahead()) {
            let tokens = vec![TokenId(token); flight.rows.len()];
            self.step(Event::Fact(Fact::Retired { forward: flight.id, tokens }));
        }
    }

    fn copied(&mut self) {
        if let Some(copy) = self.machine.next_copy() {
            self.step(Event::Fact(Fact::Copied(copy.id)));
        }
    }

    fn round(&mut self) {
        self.step(Event::Turn);
        while self.posted.is_some() {
            self.complete(|words| words);
        }
    }

    fn perform(&mut self, deed: Deed<R::Arrival, R::Fact>) {
        match deed {
            Deed::Fact(fact) => self.step(Event::Fact(fact)),
            Deed::About(slot, fact) => {
                if let Some(fact) = R::aimed(self.machine.state().value(), slot, fact) {
                    self.step(Event::Fact(Fact::Role(fact)));
                }
            }
            Deed::Retire(token) => self.retire(token),
            Deed::Copied => self.copied(),
            Deed::Round => self.round(),
            Deed::Turn => self.step(Event::Turn),
            Deed::Complete(changes) => self.complete(|mut words| {
                for (place, word) in if words.is_empty() { &[] } else { &changes[..] } {
                    let place = place.index(words.len());
                    words[place] = *word;
                }
                words
            }),
            Deed::Stray(ticket, payload) => self.step(Event::Completed { ticket, payload }),
            Deed::Misshapen(words) => self.complete(|_| words),
        }
    }
}

fn never_panics<R: Aimed>(flights: u32, in_stream: bool, deeds: Vec<Deed<R::Arrival, R::Fact>>) {
    let mut subject = Subject::<R>::new(flights, if in_stream { Votes::Stream } else { Votes::Host });
    deeds.into_iter().for_each(|deed| subject.perform(deed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn totality_of_decode(flights in 1..=2_u32, in_stream in any::<bool>(), deeds in deeds(facts(requests(), leg_facts()), leg_facts())) {
        never_panics::<Decode>(flights, in_stream, deeds);
    }

    #[test]
    fn totality_of_prefill(flights in 1..=2_u32, in_stream in any::<bool>(), deeds in deeds(facts(prefill_legs(), write_facts()), write_facts())) {
        never_panics::<Prefill>(flights, in_stream, deeds);
    }
}
