//! What surrounds one rank that runs: which facts may reach it, as the ghosts of the model's worlds tell.

use crate::decode::fabric::Port;
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::decode::Decode;
use lockstep_spec::decode::action::Do as DecodeDo;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow};
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::ids::{ForwardId, Leg, TokenId};
use lockstep_spec::machine::Fact;
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::action::Do as PrefillDo;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::parts::Parts;
use lockstep_spec::prefill::rules::Rules as PrefillRules;
use lockstep_spec::role::Role;
use lockstep_spec::trace::{GroupName, Observation};
use std::collections::VecDeque;
use std::fmt::Debug;

/// A fact of a role's ranks.
pub type FactOf<R> = Fact<<R as Role>::Arrival, <R as Role>::Fact>;

/// What a rank has to be told at once when it has done something alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<F> {
    /// What it is told.
    pub always: Option<F>,
    /// What it may be told after that.
    pub perhaps: Option<F>,
}

impl<F> Answer<F> {
    /// It is told nothing.
    pub const NONE: Self = Self { always: None, perhaps: None };
}

/// A role of the program, whatever rules it follows.
pub trait Answering: Role {
    /// The group of its ranks.
    const GROUP: GroupName;

    /// What a rank's hands tell its machine at once when it does this.
    fn answer(effect: &Self::Effect) -> Answer<FactOf<Self>>;
}

impl<R: DecodeRules> Answering for Decode<R> {
    const GROUP: GroupName = GroupName::Decode;

    fn answer(effect: &DecodeDo) -> Answer<FactOf<Self>> {
        let told = |leg: &Leg, fact| Some(Fact::Role((*leg, fact)));
        match effect {
            DecodeDo::Publish { leg, .. } => {
                Answer { always: told(leg, LegFact::Published), perhaps: told(leg, LegFact::TransferFailed) }
            }
            DecodeDo::Handshake { .. }
            | DecodeDo::Copy(_)
            | DecodeDo::Withdraw { .. }
            | DecodeDo::Fence { .. } => Answer::NONE,
            DecodeDo::Seed { .. } | DecodeDo::Emit { .. } | DecodeDo::End { .. } => Answer::NONE,
        }
    }
}

impl<R: PrefillRules> Answering for Prefill<R> {
    const GROUP: GroupName = GroupName::Prefill;

    fn answer(effect: &PrefillDo) -> Answer<FactOf<Self>> {
        match effect {
            PrefillDo::Write { leg, .. } => {
                Answer { always: None, perhaps: Some(Fact::Role((*leg, WriteFact::WriteFailed))) }
            }
            PrefillDo::Copy(_) | PrefillDo::Fail { .. } | PrefillDo::Forget { .. } => Answer::NONE,
        }
    }
}

/// What surrounds a rank of role `R`, apart from its peers and its device.
pub trait Surroundings<R: Role>: Debug {
    /// Nothing was asked for yet.
    fn new(configuration: &GroupConfiguration) -> Self;

    /// The facts that follow from something that reached the rank, in order.
    fn follow(&mut self, seen: Observation<FactOf<R>>, facts: &mut VecDeque<FactOf<R>>);

    /// The rank does something alone.
    fn does(&mut self, effect: &R::Effect);

    /// Whether a fact of this role may reach the rank now.
    fn allows(&self, fact: &R::Fact) -> bool;

    /// A fact that may reach the rank has reached it.
    fn took_place(&mut self, fact: &R::Fact);

    /// The facts of this role that may reach the rank now.
    fn allowed(&self) -> Vec<R::Fact>;
}

/// A role whose ranks' traces can be judged.
pub trait Judged: Answering {
    /// What surrounds its ranks.
    type Around: Surroundings<Self>;
}

impl Judged for Decode {
    type Around = DecodeAround;
}

impl Judged for Prefill {
    type Around = PrefillAround;
}

/// What surrounds a decode rank: a port a slot.
#[derive(Debug)]
pub struct DecodeAround(Vec<Port>);

impl DecodeAround {
    fn port(&self, leg: Leg) -> Option<&Port> {
        self.0.get(leg.slot.index())
    }

    fn change(&mut self, leg: Leg, change: impl FnOnce(&mut Port)) {
        if let Some(port) = self.0.get_mut(leg.slot.index()) {
            change(port);
        }
    }
}

impl Surroundings<Decode> for DecodeAround {
    fn new(configuration: &GroupConfiguration) -> Self {
        Self(vec![Port::IDLE; configuration.slots as usize])
    }

    fn follow(&mut self, seen: Observation<FactOf<Decode>>, facts: &mut VecDeque<FactOf<Decode>>) {
        match seen {
            Observation::Fact(fact) => facts.push_back(fact),
            Observation::Detached(_) | Observation::Part(..) | Observation::PeerGone => {}
        }
    }

    fn does(&mut self, effect: &DecodeDo) {
        match effect {
            DecodeDo::Handshake { leg, .. } => self.change(*leg, |port| port.shake(*leg, true)),
            DecodeDo::Publish { leg, pages } => {
                self.change(*leg, |port| port.publish(*leg, pages.clone()));
            }
            DecodeDo::Withdraw { leg } => self.change(*leg, |port| port.withdraw(*leg, true)),
            DecodeDo::Fence { leg } => self.change(*leg, Port::fence),
            DecodeDo::Copy(_) | DecodeDo::Seed { .. } | DecodeDo::Emit { .. } | DecodeDo::End { .. } => {}
        }
    }

    fn allows(&self, (leg, fact): &(Leg, LegFact)) -> bool {
        self.port(*leg).is_some_and(|port| port.allows(*leg, *fact))
    }

    fn took_place(&mut self, (leg, fact): &(Leg, LegFact)) {
        self.change(*leg, |port| port.took_place(*leg, *fact));
    }

    fn allowed(&self) -> Vec<(Leg, LegFact)> {
        let legs = |port: &Port| {
            let granted = port.grant.as_ref().map(|grant| grant.leg);
            port.late.into_iter().chain(port.handshake.leg()).chain(granted).collect::<Vec<_>>()
        };
        let mut facts: Vec<_> = self.0.iter().flat_map(legs).flat_map(facts_of).collect();
        facts.sort_unstable();
        facts.dedup();
        facts.retain(|fact| self.allows(fact));
        facts
    }
}

fn facts_of(leg: Leg) -> [(Leg, LegFact); 7] {
    let row = MetadataRow { echo: leg, token: TokenId(0), sound: true };
    let facts = [
        LegFact::HandshakeDone,
        LegFact::HandshakeFailed,
        LegFact::Published,
        LegFact::PagesLanded,
        LegFact::RowLanded(row),
        LegFact::TransferFailed,
        LegFact::Fenced,
    ];
    facts.map(|fact| (leg, fact))
}

/// What surrounds a prefill rank: which parts of legs are here, and which writes are outstanding.
#[derive(Debug, Default)]
pub struct PrefillAround {
    parts: Parts,
    writes: Vec<Leg>,
}

impl Surroundings<Prefill> for PrefillAround {
    fn new(_: &GroupConfiguration) -> Self {
        Self::default()
    }

    fn follow(&mut self, seen: Observation<FactOf<Prefill>>, facts: &mut VecDeque<FactOf<Prefill>>) {
        let mut follows = Vec::new();
        match seen {
            Observation::Detached(since) => self.parts.detach(since, &mut follows),
            Observation::Fact(fact) => facts.push_back(fact),
            Observation::Part(leg, part) => self.parts.take(leg, part, &mut follows),
            Observation::PeerGone => {
                follows.extend(self.parts.of_the_peer().map(|leg| (leg, WriteFact::Revoked)));
            }
        }
        facts.extend(follows.into_iter().map(Fact::Role));
    }

    fn does(&mut self, effect: &PrefillDo) {
        match effect {
            PrefillDo::Write { leg, .. } => self.writes.push(*leg),
            PrefillDo::Copy(_) | PrefillDo::Fail { .. } => {}
            PrefillDo::Forget { leg } => self.parts.forget(*leg),
        }
    }

    fn allows(&self, (leg, fact): &(Leg, WriteFact)) -> bool {
        match fact {
            WriteFact::Listed | WriteFact::Revoked => true,
            WriteFact::Written | WriteFact::WriteFailed => self.writes.contains(leg),
        }
    }

    fn took_place(&mut self, (leg, fact): &(Leg, WriteFact)) {
        match fact {
            WriteFact::Listed | WriteFact::Revoked => {}
            WriteFact::Written | WriteFact::WriteFailed => self.writes.retain(|write| write != leg),
        }
    }

    fn allowed(&self) -> Vec<(Leg, WriteFact)> {
        let ends = |leg: &Leg| [(*leg, WriteFact::Written), (*leg, WriteFact::WriteFailed)];
        self.writes.iter().flat_map(ends).collect()
    }
}

/// What a rank's device has been given and has not finished, oldest first.
#[derive(Debug, Default)]
pub struct Forwards(VecDeque<(ForwardId, usize)>);

impl Forwards {
    /// A forward of so many rows is queued.
    pub fn launch(&mut self, forward: ForwardId, rows: usize) {
        self.0.push_back((forward, rows));
    }

    /// Whether it is this forward that the device finishes next, with one token a row.
    #[must_use]
    pub fn finishes(&self, forward: ForwardId, tokens: &[TokenId]) -> bool {
        self.0.front() == Some(&(forward, tokens.len()))
    }

    /// The device has finished its oldest forward.
    pub fn finished(&mut self) {
        self.0.pop_front();
    }

    /// The forward that finishes next.
    #[must_use]
    pub fn next(&self) -> Option<ForwardId> {
        self.0.front().map(|(forward, _)| *forward)
    }
}
