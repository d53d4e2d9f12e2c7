//! The whole matrix of the decode side: for each phase, what each agreed poll, an abort and a token do. The machine itself brings a
//! request into the phase and decides; only the reduced vote is written by hand.

use lockstep_spec::agreed::{Entry, Words};
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::decode::DecodeMachine;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow};
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::ids::{Epoch, Leg, RankIndex, RequestId, SlotIndex, TokenId};
use lockstep_spec::machine::{Fact, Local};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::program::{Effect, Event, RankProgram};
use lockstep_spec::ticket::Site;
use lockstep_spec::vote::{Ballot, Outcome, SlotVote};
use std::fmt::Write;
use std::sync::Arc;

const EOS: TokenId = TokenId(9);
const ORDINARY: TokenId = TokenId(3);
/// The slot of the request that the matrix is about; an older one, in slot 0, keeps the device busy.
const SUBJECT: SlotIndex = SlotIndex(1);

type Effects = Vec<Effect<Entry, Local<lockstep_spec::decode::action::Do>>>;

/// A group of one rank, whose transport is this file.
#[derive(Clone)]
struct Bench {
    configuration: Arc<GroupConfiguration>,
    machine: DecodeMachine,
}

/// What reaches the group in one round.
#[derive(Clone, Copy)]
enum Stimulus {
    /// The vote agrees on this poll of the subject, and all ranks that wait for a first token bring this one.
    Poll(KvPoll, TokenId),
    Abort,
    /// The forward in flight retires, with this token for the subject.
    Token(TokenId),
}

impl Bench {
    fn new(host_pages: u32) -> Self {
        let configuration = Arc::new(GroupConfiguration {
            epoch: Epoch(0),
            ranks: 1,
            slots: 2,
            pages: 4,
            page_size: 2,
            flights: 1,
            prefix_pages: 0,
            host_pages,
            brief_words: 32,
            chunk_tokens: 8,
            deadline_ticks: 4,
            stop_tokens: vec![EOS],
            collectives: Collectives::Host,
            forwards: Forwards::Eager,
            votes: Votes::Host,
        });
        let machine =
            DecodeMachine::new(configuration.clone(), RankIndex(0)).expect("the configuration is valid");
        Self { configuration, machine }
    }

    fn step(&mut self, event: Event<Fact<Request, (Leg, LegFact)>, Site>) -> Effects {
        let mut effects = Effects::new();
        self.machine.step(event, &mut effects);
        effects
    }

    fn fact(&mut self, fact: Fact<Request, (Leg, LegFact)>) {
        assert_eq!(self.step(Event::Fact(fact)), [], "these facts only change evidence");
    }

    /// One round; `vote` may rewrite the reduced vote. Returns all effects but the entries of vote and brief.
    fn round(&mut self, vote: impl FnOnce(&Self, &Entry) -> Words) -> Effects {
        let mut effects = self.step(Event::Turn);
        let Some(Effect::Enter(posted)) = effects.pop() else { panic!("a turn posts the vote") };
        let payload = vote(self, &posted);
        effects.extend(self.step(Event::Completed { ticket: *posted.ticket(), payload }));
        if let Some(Effect::Enter(brief)) = effects.first().cloned()
            && brief.ticket().site == Site::Brief
        {
            effects.remove(0);
            effects.extend(
                self.step(Event::Completed { ticket: *brief.ticket(), payload: brief.payload().to_vec() }),
            );
        }
        effects
    }

    fn honest(&mut self) -> Effects {
        self.round(|_, posted| posted.payload().to_vec())
    }

    fn submit(&mut self, id: u64, prompt_tokens: u32, max_tokens: u32) {
        let request = Request {
            id: RequestId(id),
            prompt_tokens,
            max_tokens,
            generated: 0,
            ignore_eos: false,
            sampling: Sampling::GREEDY,
        };
        self.fact(Fact::Submitted(request));
        self.honest();
    }

    fn leg(&self, slot: SlotIndex) -> Leg {
        let slot_now = self.machine.state().value().slot(slot).expect("the slot exists");
        Leg { epoch: Epoch(0), slot, generation: slot_now.generation, attempt: slot_now.attempt }
    }

    fn tell(&mut self, slot: SlotIndex, facts: &[LegFact]) {
        let leg = self.leg(slot);
        facts.iter().for_each(|fact| self.fact(Fact::Role((leg, *fact))));
        self.honest();
    }

    fn land(&mut self, slot: SlotIndex) {
        let row = MetadataRow { echo: self.leg(slot), token: ORDINARY, sound: true };
        self.tell(slot, &[LegFact::PagesLanded, LegFact::RowLanded(row)]);
        self.tell(slot, &[LegFact::Fenced]);
    }

    fn retire(&mut self, tokens: &[TokenId]) -> Effects {
        let forward = self.machine.state().value().flights.queue[0].id;
        self.fact(Fact::Retired { forward, tokens: tokens.to_vec() });
        self.honest()
    }

    /// The subject has been recorded while the first forward of an older request, in slot 0, is in flight.
    fn bootstrapping(company: (u32, u32)) -> Self {
        let mut bench = Self::new(0);
        bench.record(company);
        bench
    }

    fn record(&mut self, company: (u32, u32)) {
        self.submit(0, company.0, company.1);
        self.tell(SlotIndex(0), &[LegFact::HandshakeDone]);
        self.land(SlotIndex(0));
        self.submit(1, 2, 4);
    }

    /// The company's pages leave too few for the subject.
    fn handshaken() -> Self {
        let mut bench = Self::bootstrapping((4, 2));
        bench.tell(SUBJECT, &[LegFact::HandshakeDone]);
        bench
    }

    fn transferring(company: (u32, u32)) -> Self {
        let mut bench = Self::bootstrapping(company);
        bench.tell(SUBJECT, &[LegFact::HandshakeDone]);
        bench
    }

    fn ready(company: (u32, u32)) -> Self {
        let mut bench = Self::transferring(company);
        bench.land(SUBJECT);
        bench
    }

    /// A forward with both is in flight, and the company wants no further page.
    fn running() -> Self {
        let mut bench = Self::ready((2, 3));
        bench.retire(&[ORDINARY]);
        bench
    }

    /// A forward with both is in flight, and the company needs a page that only the subject can give.
    fn retracting(host_pages: u32) -> Self {
        let mut bench = Self::new(host_pages);
        bench.record((2, 4));
        bench.tell(SUBJECT, &[LegFact::HandshakeDone]);
        bench.land(SUBJECT);
        bench.retire(&[ORDINARY]);
        bench.honest();
        bench
    }

    fn retracted() -> Self {
        let mut bench = Self::retracting(0);
        bench.retire(&[ORDINARY, ORDINARY]);
        bench
    }

    /// Its copy is on the host.
    fn stored() -> Self {
        let mut bench = Self::retracting(2);
        bench.retire(&[ORDINARY, ORDINARY]);
        bench.copied();
        bench
    }

    /// The company is gone, and its pages are the subject's.
    fn restoring() -> Self {
        let mut bench = Self::stored();
        bench.retire(&[ORDINARY]);
        bench
    }

    /// All copies that are under way are made.
    fn copied(&mut self) -> Effects {
        let copies: Vec<_> = self.machine.state().value().host.copies().iter().map(|copy| copy.id).collect();
        copies.into_iter().for_each(|copy| self.fact(Fact::Copied(copy)));
        self.honest()
    }

    fn draining() -> Self {
        let mut bench = Self::running();
        bench.apply(Stimulus::Abort);
        bench
    }

    /// The phase of the subject.
    fn phase(&self) -> String {
        let occupant = self.machine.state().value().occupant(SUBJECT);
        occupant.map_or("(free)".to_owned(), |tenant| format!("{:?}", tenant.phase))
    }

    fn apply(&mut self, stimulus: Stimulus) -> Effects {
        match stimulus {
            Stimulus::Poll(poll, token) => self.round(|bench, posted| bench.vote(posted, poll, token)),
            Stimulus::Abort => {
                self.fact(Fact::AbortWanted(RequestId(1)));
                self.honest()
            }
            Stimulus::Token(token) => {
                let rows = &self.machine.state().value().flights.queue[0].rows;
                let tokens: Vec<TokenId> =
                    rows.iter().map(|row| if row.slot == SUBJECT { token } else { ORDINARY }).collect();
                self.retire(&tokens)
            }
        }
    }

    /// The posted vote with another poll of the subject.
    fn vote(&self, posted: &Entry, poll: KvPoll, token: TokenId) -> Words {
        let honest = Outcome::new(posted.payload().to_vec());
        let state = self.machine.state().value();
        let mut ballot = Ballot::new(&self.configuration, Epoch(0), self.machine.round(), state.digest());
        ballot.brief_words(0);
        let first_token = (poll == KvPoll::Success).then_some(token);
        ballot.slot(SUBJECT, SlotVote { poll, first_token, drained: honest.drained(SUBJECT) });
        ballot.into_words()
    }
}

const POLLS: [KvPoll; 10] = [
    KvPoll::TransferFailed,
    KvPoll::Corrupt,
    KvPoll::WrongLeg,
    KvPoll::HandshakeFailed,
    KvPoll::Revoked,
    KvPoll::DeadlinePassed,
    KvPoll::Bootstrapping,
    KvPoll::WaitingForInput,
    KvPoll::Transferring,
    KvPoll::Success,
];

/// Stimuli with their names; tokens only where a forward in flight names the subject.
fn stimuli(bench: &Bench) -> Vec<(String, Stimulus)> {
    let mut stimuli: Vec<(String, Stimulus)> =
        POLLS.into_iter().map(|poll| (format!("{poll:?}"), Stimulus::Poll(poll, ORDINARY))).collect();
    stimuli.push(("Success, its token ends the output".to_owned(), Stimulus::Poll(KvPoll::Success, EOS)));
    stimuli.push(("abort".to_owned(), Stimulus::Abort));
    if bench.machine.state().value().flights.naming(SUBJECT) > 0 {
        stimuli.push(("token".to_owned(), Stimulus::Token(ORDINARY)));
        stimuli.push(("token that ends the output".to_owned(), Stimulus::Token(EOS)));
    }
    stimuli
}

/// One phase's part of the matrix: stimuli with the same consequence share a line.
fn lines(bench: &Bench) -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (name, stimulus) in stimuli(bench) {
        let mut after = bench.clone();
        let effects = after.apply(stimulus);
        let consequence = format!("{}{}", after.phase(), shown(&effects));
        match lines.iter_mut().find(|(seen, _)| *seen == consequence) {
            Some((_, names)) => names.push(name),
            None => lines.push((consequence, vec![name])),
        }
    }
    lines.into_iter().fold(format!("{}\n", bench.phase()), |mut text, (consequence, names)| {
        writeln!(text, "  {}\n    ─▶ {consequence}", names.join(" | ")).expect("a string takes every line");
        text
    })
}

fn shown(effects: &Effects) -> String {
    effects.iter().fold(String::new(), |text, effect| {
        text + "\n       "
            + &match effect {
                Effect::Enter(entry) => format!("enter {}", entry.ticket()),
                Effect::Local(Local::Launch { forward, rows }) => {
                    format!("launch {forward} {:?}", rows.iter().map(|row| row.slot).collect::<Vec<_>>())
                }
                Effect::Local(Local::Role(effect)) => format!("{effect:?}"),
                Effect::Local(Local::Decided(reasons)) => format!("because {reasons:?}"),
                Effect::Fault(fault) => format!("FAULT {fault}"),
                Effect::Leave => "leave".to_owned(),
            }
    })
}

#[test]
fn phases_every_stimulus_in_every_phase() {
    let benches = [
        Bench::bootstrapping((2, 4)),
        Bench::handshaken(),
        Bench::transferring((2, 4)),
        Bench::ready((2, 4)),
        Bench::running(),
        Bench::retracting(0),
        Bench::retracted(),
        Bench::stored(),
        Bench::restoring(),
        Bench::draining(),
    ];
    let reached: Vec<String> = benches.iter().map(Bench::phase).collect();
    let expected = [
        "Bootstrapping",
        "Handshaken",
        "Transferring",
        "Ready",
        "Running",
        "Retracting",
        "Retracted",
        "Stored",
        "Restoring",
        "Draining(Aborted)",
    ];
    assert_eq!(reached, expected, "the machine itself reaches every phase");
    insta::assert_snapshot!(benches.iter().map(lines).collect::<Vec<_>>().join("\n"));
}
