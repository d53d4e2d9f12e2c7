//! The traces that ranks write when they go a way through a model: what `validate` reads, written from the other side. With them the
//! runtime's loop is led along any way that was explored.
//!
//! ```text
//!  Group ── Log: what happened to its ranks, in order ──▶ written ──▶ a trace a rank
//! ```
//! Two things are told in the order of the loop, and not of the way:
//! * a rank takes nothing while it waits in a collective between the hosts. What reaches it there in a model is seen there, and taken once the
//!   round is over. While it waits for a vote in its device's queue it takes what comes, as it does between rounds;
//! * what a rank's hands answer at once is taken before it does anything else, if it is what the rank is told next on the way.
//!
//! Neither may change what a machine does: if one did, the loop would not keep to the trace.

use crate::validate::surroundings::{Answer, Answering, FactOf};
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::decode::Decode;
use lockstep_spec::ids::RankIndex;
use lockstep_spec::machine::{Fact, Local, RankMachine};
use lockstep_spec::prefill::Prefill;
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
use lockstep_spec::role::Role;
use lockstep_spec::ticket::{Communicator, Site, SiteName};
use lockstep_spec::trace::{Closing, FORMAT, Header, Line, Observation};
use serde::Serialize;
use serde_json::Value;
use std::any::TypeId;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// What happened to a rank, and what it did then.
#[derive(Clone, Debug)]
pub struct Happened<P: RankProgram> {
    rank: usize,
    event: Event<P::Fact, P::Site>,
    effects: Vec<Effect<Posted<P::Site>, P::Local>>,
}

/// What happened to the ranks of a group, where somebody wants to know. It is no part of a state: all are equal.
#[derive(Clone, Debug)]
pub struct Log<P: RankProgram>(Option<Vec<Happened<P>>>);

impl<P: RankProgram> Log<P> {
    /// Begins to keep what is noted.
    pub fn keep(&mut self) {
        self.0.get_or_insert_default();
    }

    /// Whether what is noted is kept.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.0.is_some()
    }

    /// Notes what happened to a rank, and what it did then.
    pub fn note(
        &mut self,
        rank: usize,
        event: Event<P::Fact, P::Site>,
        effects: &[Effect<P::Entry, P::Local>],
    ) {
        let posted = |effect: &Effect<P::Entry, P::Local>| match effect {
            Effect::Enter(entry) => Effect::Enter(entry.clone().into()),
            Effect::Local(local) => Effect::Local(local.clone()),
            Effect::Fault(fault) => Effect::Fault(*fault),
            Effect::Leave => Effect::Leave,
        };
        if let Some(kept) = &mut self.0 {
            kept.push(Happened { rank, event, effects: effects.iter().map(posted).collect() });
        }
    }

    /// Takes out what was kept.
    pub fn take(&mut self) -> Vec<Happened<P>> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl<P: RankProgram> Default for Log<P> {
    fn default() -> Self {
        Self(None)
    }
}

impl<P: RankProgram> PartialEq for Log<P> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<P: RankProgram> Eq for Log<P> {}

impl<P: RankProgram> Hash for Log<P> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

type LineOf<R> = Line<FactOf<R>, Local<<R as Role>::Effect>>;

/// The traces of a group's ranks to which this happened, by rank; none of ranks that follow other rules than those that ship.
#[must_use]
pub fn written<R: Answering>(
    configuration: &GroupConfiguration,
    happened: Vec<Happened<RankMachine<R>>>,
) -> Vec<String> {
    let role = TypeId::of::<R>();
    if role != TypeId::of::<Decode>() && role != TypeId::of::<Prefill>() {
        return Vec::new();
    }
    let mut scribes: Vec<Scribe<R>> =
        (0..configuration.ranks).map(|rank| Scribe::new(RankIndex(rank), configuration)).collect();
    for happened in happened {
        scribes[happened.rank].coming.push_back(happened);
    }
    scribes.into_iter().map(Scribe::write).collect()
}

/// The action with an index on a way that is taken without rebasing, since ranks that run count on. Rebasing preserves order, so an action
/// keeps its index.
pub fn offered<A>(choice: u32, offer: impl FnOnce(&mut Vec<A>)) -> A {
    let mut offered = Vec::new();
    offer(&mut offered);
    let found = offered.into_iter().nth(choice as usize);
    found.unwrap_or_else(|| {
        unreachable!("rebasing keeps the order of actions, and there is no action {choice}")
    })
}

/// Whose trace it is, for a person.
#[must_use]
pub fn whose(trace: &str) -> String {
    let first = trace.lines().next().unwrap_or_default();
    match serde_json::from_str(first) {
        Ok(Line::<Value, Value>::Opened(Header { group, rank, configuration, .. })) => {
            format!("rank {} of {group} {}", rank.0, configuration.epoch)
        }
        Ok(_) | Err(_) => "a rank without a name".to_owned(),
    }
}

/// Who writes a rank's trace.
struct Scribe<R: Role> {
    text: String,
    /// What is still to be told, in the order of the way.
    coming: VecDeque<Happened<RankMachine<R>>>,
    /// What was seen and not taken: the rank waits in a collective.
    waiting: Vec<Happened<RankMachine<R>>>,
    /// Whether the rank waits in a collective between the hosts.
    inside: bool,
    /// Whether the rank has ended.
    ended: bool,
}

impl<R: Answering> Scribe<R> {
    fn new(rank: RankIndex, configuration: &GroupConfiguration) -> Self {
        let header = Header {
            format: FORMAT,
            group: R::GROUP,
            rank,
            configuration: configuration.clone(),
            protocol: lockstep_spec::FINGERPRINT.to_owned(),
        };
        let (coming, waiting) = (VecDeque::new(), Vec::new());
        let mut scribe = Self { text: String::new(), coming, waiting, inside: false, ended: false };
        scribe.tell(&LineOf::<R>::Opened(header));
        scribe
    }

    fn write(mut self) -> String {
        while let Some(next) = self.coming.pop_front().filter(|_| !self.ended) {
            match &next.event {
                Event::Fact(fact) => {
                    if *fact != Fact::Tick {
                        self.tell(&LineOf::<R>::Seen(vec![Observation::Fact(fact.clone())]));
                    }
                    self.waiting.push(next);
                }
                Event::Turn | Event::Completed { .. } => self.take(next),
            }
            if !self.inside && !self.ended {
                std::mem::take(&mut self.waiting).into_iter().for_each(|received| self.receive(received));
            }
        }
        self.text
    }

    /// The loop takes something from its queue; its clock is not in it.
    fn receive(&mut self, received: Happened<RankMachine<R>>) {
        if received.event != Event::Fact(Fact::Tick) {
            self.tell(&LineOf::<R>::Received);
        }
        self.take(received);
    }

    /// The machine takes an event, and the rank does what follows.
    fn take(&mut self, Happened { event, effects, .. }: Happened<RankMachine<R>>) {
        if !matches!(event, Event::Fact(_)) {
            self.inside = effects.iter().any(waits);
        }
        self.tell(&LineOf::<R>::Took(event));
        for effect in effects {
            match effect {
                Effect::Enter(posted) => self.tell(&LineOf::<R>::Entered(posted)),
                Effect::Local(local) => self.act(local),
                Effect::Leave => {
                    self.ended = true;
                    self.tell(&LineOf::<R>::Closed(Closing::Left));
                }
                // Of a rank that faults, no more is written.
                Effect::Fault(_) => self.ended = true,
            }
        }
    }

    fn act(&mut self, local: Local<R::Effect>) {
        let answer = match &local {
            Local::Role(effect) => R::answer(effect),
            Local::Launch { .. } | Local::Decided(_) => Answer::NONE,
        };
        self.tell(&LineOf::<R>::Did(local));
        for fact in answer.always.into_iter().chain(answer.perhaps) {
            let is_next = |next: &mut Happened<_>| matches!(&next.event, Event::Fact(told) if *told == fact);
            self.coming.pop_front_if(is_next).into_iter().for_each(|told| self.take(told));
        }
    }

    /// Writes a line. Nothing that ranks write can fail to be JSON: no maps, no foreign types.
    fn tell(&mut self, line: &impl Serialize) {
        self.text += &serde_json::to_string(line).map_or_else(|_| String::new(), |line| line + "\n");
    }
}

/// Whether a rank waits in what it enters, and takes nothing meanwhile.
fn waits<L>(effect: &Effect<Posted<Site>, L>) -> bool {
    matches!(effect, Effect::Enter(posted) if posted.ticket.site.communicator() == Communicator::Control)
}
