//! A group of real machines in lock step, and the transcript of what they do. The group plays the transport (MIN, broadcast) and checks
//! what a transport would: that all ranks enter the same collective. Everything else that reaches a rank, a story tells it.

pub(crate) mod alone;

use lockstep_spec::agreed::{Entry, Words};
use lockstep_spec::brief::Brief;
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::ids::{ForwardId, RankIndex, TokenId};
use lockstep_spec::invariant;
use lockstep_spec::machine::{Fact, Local, Position, RankMachine};
use lockstep_spec::prefill::leg::LegTenant;
use lockstep_spec::program::{Effect, Event, RankProgram};
use lockstep_spec::role::Role;
use lockstep_spec::table::{Occupant, Row, State};
use lockstep_spec::ticket::{Site, SiteName, Ticket};
use lockstep_spec::vote::Outcome;
use std::fmt::Write;
use std::sync::Arc;

/// What a role adds to a transcript.
pub(crate) trait Shown: Role {
    /// One occupant, short.
    fn occupant(occupant: &Self::Occupant) -> String;
}

impl Shown for lockstep_spec::decode::Decode {
    fn occupant(Tenant { request, phase, pages, host_pages, generated }: &Tenant) -> String {
        let hosts = if host_pages.is_empty() { String::new() } else { format!(" {host_pages:?}") };
        format!("{} {phase:?} {pages:?}{hosts} out {generated}", request.id)
    }
}

impl Shown for lockstep_spec::prefill::Prefill {
    fn occupant(LegTenant { arrival, phase, pages, launched }: &LegTenant) -> String {
        format!("{} {} {phase:?} {launched} of {} {pages:?}", arrival.id, arrival.leg, arrival.tokens)
    }
}

/// A group of one role.
pub(crate) struct Group<R: Role> {
    configuration: Arc<GroupConfiguration>,
    pub(crate) ranks: Vec<RankMachine<R>>,
    /// Entries into collectives between hosts that have not completed, by rank.
    posted: Vec<Option<Entry>>,
    /// What each rank did since the transcript was last written.
    did: Vec<Vec<String>>,
    story: String,
}

impl<R: Shown> Group<R> {
    pub(crate) fn new(configuration: GroupConfiguration) -> Self {
        let configuration = Arc::new(configuration);
        let ranks: Vec<_> = (0..configuration.ranks)
            .map(|rank| {
                RankMachine::new(configuration.clone(), RankIndex(rank)).expect("the configuration is valid")
            })
            .collect();
        let count = ranks.len();
        Self {
            configuration,
            ranks,
            posted: vec![None; count],
            did: vec![Vec::new(); count],
            story: String::new(),
        }
    }

    /// Lets a fact reach one rank.
    pub(crate) fn fact(&mut self, rank: usize, fact: Fact<R::Arrival, R::Fact>) {
        self.note(&format!("r{rank} ◀ {}", Self::told(&fact)));
        self.step(rank, Event::Fact(fact));
        self.write_down();
    }

    /// Lets the same fact reach every rank.
    pub(crate) fn everywhere(&mut self, fact: &Fact<R::Arrival, R::Fact>) {
        self.note(&format!("all ◀ {}", Self::told(fact)));
        (0..self.ranks.len()).for_each(|rank| self.step(rank, Event::Fact(fact.clone())));
        self.write_down();
    }

    /// Lets the device of every rank finish a forward.
    pub(crate) fn retired(&mut self, forward: u64, tokens: &[u32]) {
        let tokens = tokens.iter().copied().map(TokenId).collect();
        self.everywhere(&Fact::Retired { forward: ForwardId(forward), tokens });
    }

    /// Plays one round on all ranks that take part in rounds.
    pub(crate) fn round(&mut self) {
        self.note(&format!("{}", self.ranks[0].round()));
        (0..self.ranks.len()).for_each(|rank| self.step(rank, Event::Turn));
        while let Some((ticket, payload)) = self.reduce() {
            self.read_aloud(&ticket, &payload);
            for rank in 0..self.ranks.len() {
                self.step(rank, Event::Completed { ticket, payload: payload.clone() });
            }
        }
        self.write_down();
        self.show_state();
    }

    /// Plays rounds.
    pub(crate) fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round());
    }

    /// The transcript so far, starting anew.
    pub(crate) fn tell(&mut self) -> String {
        std::mem::take(&mut self.story)
    }

    pub(crate) fn state(&self) -> &State<R::Occupant> {
        self.ranks[0].state().value()
    }

    fn step(&mut self, rank: usize, event: Event<Fact<R::Arrival, R::Fact>, Site>) {
        let mut effects = Vec::new();
        self.ranks[rank].step(event, &mut effects);
        for effect in effects {
            self.did[rank].push(Self::done(&effect));
            if let Effect::Enter(entry) = effect
                && entry.ticket().site.awaited()
            {
                assert!(self.posted[rank].replace(entry).is_none(), "a rank enters one collective at a time");
            }
        }
    }

    /// Completes the collective that all ranks have entered.
    fn reduce(&mut self) -> Option<(Ticket, Words)> {
        let entries: Vec<Entry> = self.posted.iter_mut().filter_map(Option::take).collect();
        let ticket = *entries.first()?.ticket();
        assert_eq!(entries.len(), self.ranks.len(), "every rank enters {ticket}");
        assert!(
            entries.iter().all(|entry| *entry.ticket() == ticket),
            "every rank enters the same: {entries:?}"
        );
        let payload = match ticket.site {
            Site::Vote | Site::StreamVote => minimum(&entries),
            Site::Brief | Site::Forward | Site::Offer | Site::Name | Site::Connect | Site::Ready => {
                entries[0].payload().to_vec()
            }
        };
        Some((ticket, payload))
    }

    fn told(fact: &Fact<R::Arrival, R::Fact>) -> String {
        match fact {
            Fact::Role(fact) => format!("{fact:?}"),
            Fact::Retired { forward, tokens } => format!("Retired {forward} {tokens:?}"),
            Fact::Copied(_)
            | Fact::Submitted(_)
            | Fact::AbortWanted(_)
            | Fact::PauseWanted(_)
            | Fact::ShutdownWanted
            | Fact::Broken
            | Fact::Tick => format!("{fact:?}"),
        }
    }

    fn done(effect: &Effect<Entry, Local<R::Effect>>) -> String {
        match effect {
            Effect::Enter(entry) => format!("enter {}", entry.ticket()),
            Effect::Local(Local::Role(effect)) => format!("{effect:?}"),
            Effect::Local(Local::Decided(reasons)) => format!("because {reasons:?}"),
            Effect::Local(Local::Launch { forward, rows }) => {
                format!("launch {forward} {}", rows.iter().map(row).collect::<Vec<_>>().join(", "))
            }
            Effect::Fault(fault) => format!("FAULT {fault}"),
            Effect::Leave => "leave".to_owned(),
        }
    }

    fn note(&mut self, line: &str) {
        writeln!(self.story, "{line}").expect("a string takes every line");
    }

    /// What a completed collective says, apart from what every vote says.
    fn read_aloud(&mut self, ticket: &Ticket, payload: &Words) {
        let line = match ticket.site {
            Site::Vote | Site::StreamVote => self.vote(&Outcome::new(payload.clone())),
            Site::Brief => match Brief::<R::Arrival>::decode(payload) {
                Ok(Brief { pause, verdicts, arrivals, aborts }) => {
                    let pause = pause.map(|pause| format!("pause {pause} ")).unwrap_or_default();
                    format!("brief: {pause}verdicts {verdicts:?} arrivals {arrivals:?} aborts {aborts:?}")
                }
                Err(fault) => format!("brief: {fault}"),
            },
            Site::Forward | Site::Offer | Site::Name | Site::Connect | Site::Ready => return,
        };
        self.note(&format!("  {line}"));
    }

    fn vote(&self, outcome: &Outcome) -> String {
        let mut line = format!("vote: retired {}", outcome.retired());
        if outcome.copied() > 0 {
            line += &format!(", copied {}", outcome.copied());
        }
        if outcome.shutdown() {
            line += ", shutdown";
        }
        if let Some(fault) = outcome.fault() {
            line += &format!(", {fault:?}");
        }
        for (slot, _) in self.state().enumerate().filter(|(_, slot)| slot.occupant.is_some()) {
            line += &format!(", {slot} {:?}", outcome.poll(slot));
            if !outcome.drained(slot) {
                line += " undrained";
            }
        }
        line
    }

    /// Writes what was done since the last time: ranks that did the same share a line.
    fn write_down(&mut self) {
        let did: Vec<Vec<String>> = self.did.iter_mut().map(std::mem::take).collect();
        if did.iter().all(|list| *list == did[0]) {
            return did[0].iter().for_each(|line| self.note(&format!("  all ▶ {line}")));
        }
        for (rank, list) in did.iter().enumerate() {
            list.iter().for_each(|line| self.note(&format!("  r{rank}  ▶ {line}")));
        }
    }

    /// The agreed state after a round, which is the same on every rank that has not faulted, with the invariants checked.
    fn show_state(&mut self) {
        let state = self.state().clone();
        assert!(invariant::pages_sound::holds(&self.configuration, &state));
        assert!(invariant::no_write_after_free::holds_for_flights(&state));
        for rank in self.ranks.iter().filter(|rank| !matches!(rank.position(), Position::Faulted(_))) {
            assert_eq!(rank.state().value(), &state, "what is agreed is the same everywhere");
        }
        let flying: Vec<String> = state.flights.queue.iter().map(|flight| flight.id.to_string()).collect();
        self.note(&format!("  = free {:?}, in flight [{}]", state.pool.free(), flying.join(" ")));
        for (index, slot) in state.enumerate() {
            slot.occupant
                .iter()
                .for_each(|occupant| self.note(&format!("  = {index} {}", R::occupant(occupant))));
        }
    }
}

/// Element-wise minimum of what the ranks bring.
pub(crate) fn minimum(entries: &[Entry]) -> Words {
    let mut reduced = entries[0].payload().to_vec();
    for entry in entries {
        reduced.iter_mut().zip(entry.payload()).for_each(|(least, word)| *least = (*least).min(*word));
    }
    reduced
}

fn row(Row { slot, position, tokens, pages }: &Row) -> String {
    format!("{slot}@{position}+{tokens} {pages:?}")
}

/// Whether nothing is left: no occupant, no flight, every page free.
pub(crate) fn empty<O: Occupant>(configuration: &GroupConfiguration, state: &State<O>) -> bool {
    state.idle() && state.pool.len() == configuration.pages as usize
}
