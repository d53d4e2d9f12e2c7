//! The decode group in its world: N real machines, a front end that never runs out of requests, and a fabric that may be slow, late,
//! or break in the ways of the setting.
//!
//! Reading order: [`setting`] (bounds), [`fabric`], [`host`] and [`client`] (the ghosts), then [`Surroundings`] here.

pub mod client;
pub mod fabric;
pub(crate) mod facts;
pub mod field;
pub mod host;
pub mod mutants;
pub mod setting;
pub mod witnesses;

use crate::coverage;
use crate::decode::client::Clients;
use crate::decode::fabric::Port;
use crate::decode::host::Host;
use crate::decode::setting::DecodeSetting;
use crate::explore::{Notes, Obligation, fingerprint};
use crate::group::arrange;
use crate::traces::{self, Happened};
use crate::world::{Completion, Environment, Interleaving, Standing};
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::DecodeMachine;
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::evidence::LegFact;
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::decode::request::Request;
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::ids::{ForwardId, Leg, PageId, RankIndex, TokenId};
use lockstep_spec::invariant::{admission_fair, kv_before_run, no_write_after_free, vote_fresh};
use lockstep_spec::machine::{Fact, Local, Position};
use lockstep_spec::program::Posted;
use lockstep_spec::table::{Row, Slot};
use lockstep_spec::ticket::{Kind, Site};
use std::marker::PhantomData;
use std::sync::Arc;

/// What is owed to a rank for each slot.
const OWED: [&str; 5] = [
    "its handshake is done",
    "its page list is published",
    "its pages land",
    "its row lands",
    "its fence is done",
];

/// A forward that a rank's device has in its queue, with what it will sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queued {
    forward: ForwardId,
    tokens: Vec<TokenId>,
}

/// What surrounds the ranks of a decode group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Surroundings<R> {
    /// By rank and slot.
    pub ports: Vec<Vec<Port>>,
    /// By rank, oldest first.
    pub devices: Vec<Vec<Queued>>,
    /// By rank.
    pub hosts: Vec<Host>,
    /// Whose requests have not ended.
    pub clients: Clients,
    /// Whether some rank was asked to leave.
    pub shutdown: bool,
    rules: PhantomData<R>,
}

/// What reaches a decode rank.
pub type DecodeFact = Fact<Request, (Leg, LegFact)>;

impl<R: Rules> Surroundings<R> {
    fn port(&mut self, rank: usize, leg: Leg) -> &mut Port {
        &mut self.ports[rank][leg.slot.index()]
    }

    /// Pages may be published only after every rank's handshake for that attempt, and over nothing that is still granted.
    fn publish(&mut self, rank: usize, leg: Leg, pages: &[PageId]) -> Result<(), &'static str> {
        if !self.ports.iter().all(|ports| ports[leg.slot.index()].shook(leg)) {
            return Err(vote_fresh::PROPERTY.id);
        }
        let port = self.port(rank, leg);
        if port.grant.is_some() {
            return Err(no_write_after_free::PROPERTY.id);
        }
        port.publish(leg, pages.to_vec());
        Ok(())
    }

    fn launch(
        &mut self,
        setting: &DecodeSetting,
        machine: &DecodeMachine<R>,
        rank: usize,
        forward: ForwardId,
        rows: &[Row],
    ) -> Result<(), &'static str> {
        let mut tokens = Vec::new();
        for row in rows {
            let state = machine.state().value();
            let leg = state.leg(setting.configuration.epoch, row.slot);
            let port = &mut self.ports[rank][row.slot.index()];
            if port.whole != leg {
                let back =
                    leg.is_some_and(|leg| self.hosts[rank].read(&setting.configuration, row, leg.generation));
                port.whole = leg.filter(|_| back);
            }
            if port.whole.is_none() || port.grant.is_some() {
                return Err(kv_before_run::PROPERTY.id);
            }
            let request = state.occupant(row.slot).map(|tenant| tenant.request);
            let kind =
                request.and_then(|request| setting.kind(&request)).ok_or(kv_before_run::PROPERTY.id)?;
            tokens.push(kind.token(row.position + 1 - kind.prompt));
        }
        self.devices[rank].push(Queued { forward, tokens });
        Ok(())
    }
}

impl<R: Rules> Environment for Surroundings<R> {
    type Program = DecodeMachine<R>;
    type Setting = DecodeSetting;

    const TELLS: bool = true;

    fn genesis(setting: &DecodeSetting) -> (Vec<DecodeMachine<R>>, Self) {
        let ranks = setting.configuration.ranks;
        let machine = |rank| DecodeMachine::new(Arc::clone(&setting.configuration), RankIndex(rank));
        let surroundings = Self {
            ports: vec![vec![Port::IDLE; setting.slots()]; ranks as usize],
            devices: vec![Vec::new(); ranks as usize],
            hosts: vec![Host::new(&setting.configuration); ranks as usize],
            clients: Clients::default(),
            shutdown: false,
            rules: PhantomData,
        };
        ((0..ranks).filter_map(|rank| machine(rank).ok()).collect(), surroundings)
    }

    fn interleaving(setting: &DecodeSetting) -> Interleaving {
        setting.interleaving
    }

    fn completion(setting: &DecodeSetting) -> Completion {
        setting.completion
    }

    fn symmetric(setting: &DecodeSetting) -> bool {
        setting.symmetric
    }

    fn bundled(setting: &DecodeSetting) -> bool {
        setting.bundled
    }

    fn behind(&self, setting: &DecodeSetting, ranks: &[DecodeMachine<R>], rank: usize) -> Option<DecodeFact> {
        let mut facts = Vec::new();
        if setting.bundled {
            self.fabric_facts(setting, &ranks[rank], rank, &mut facts);
        }
        let lands =
            |fact: &DecodeFact| matches!(fact, Fact::Role((_, LegFact::PagesLanded | LegFact::RowLanded(_))));
        facts.into_iter().find(lands)
    }

    fn part(&self, rank: usize) -> u128 {
        fingerprint(&(&self.ports[rank], &self.devices[rank], &self.hosts[rank]))
    }

    fn arrange(&mut self, order: &[usize]) {
        arrange(&mut self.ports, order);
        arrange(&mut self.devices, order);
        arrange(&mut self.hosts, order);
    }

    fn facts(
        &self,
        setting: &DecodeSetting,
        ranks: &[DecodeMachine<R>],
        rank: usize,
        facts: &mut Vec<DecodeFact>,
    ) {
        self.front_end_facts(setting, &ranks[rank], facts);
        self.fabric_facts(setting, &ranks[rank], rank, facts);
        facts.extend(self.hosts[rank].next().map(|copy| Fact::Copied(copy.id)));
    }

    fn delivered(&mut self, setting: &DecodeSetting, rank: usize, fact: &DecodeFact) {
        match fact {
            Fact::Role((leg, fact)) => self.port(rank, *leg).took_place(*leg, *fact),
            Fact::ShutdownWanted => self.shutdown = true,
            Fact::Copied(_) => self.hosts[rank].complete(),
            Fact::Submitted(request) => {
                let kind = setting.kind(request);
                kind.into_iter().for_each(|kind| self.clients.ask(request.id, kind));
            }
            Fact::Retired { .. }
            | Fact::AbortWanted(_)
            | Fact::PauseWanted(_)
            | Fact::Broken
            | Fact::Tick => {}
        }
    }

    fn completed(&mut self, _: &DecodeSetting, _: &[DecodeMachine<R>], rank: usize) -> DecodeFact {
        let Queued { forward, tokens } = self.devices[rank].remove(0);
        self.hosts[rank].retire();
        Fact::Retired { forward, tokens }
    }

    fn perform(
        &mut self,
        setting: &DecodeSetting,
        ranks: &[DecodeMachine<R>],
        rank: usize,
        local: &Local<Do>,
    ) -> Result<(), &'static str> {
        match local {
            Local::Launch { forward, rows } => self.launch(setting, &ranks[rank], rank, *forward, rows),
            Local::Role(Do::Handshake { leg, .. }) => {
                self.port(rank, *leg).shake(*leg, setting.late_facts);
                Ok(())
            }
            Local::Role(Do::Copy(copy)) => {
                let queued: Vec<ForwardId> = self.devices[rank].iter().map(|queued| queued.forward).collect();
                let held = self.hosts[rank].start(ranks[rank].state().value(), *copy, &queued);
                if held { Ok(()) } else { Err(no_write_after_free::PROPERTY.id) }
            }
            Local::Role(Do::Publish { leg, pages }) => self.publish(rank, *leg, pages),
            Local::Role(Do::Withdraw { leg }) => {
                self.port(rank, *leg).withdraw(*leg, setting.late_facts);
                Ok(())
            }
            Local::Role(Do::Fence { leg }) => {
                self.port(rank, *leg).fence();
                Ok(())
            }
            Local::Decided(_) => {
                self.hosts[rank].forget_free(ranks[rank].state().value());
                Ok(())
            }
            Local::Role(Do::Emit { request, index, token, ended }) => {
                self.clients.tell(*request, Some((*index, *token)), *ended)
            }
            Local::Role(Do::End { request, outcome }) => self.clients.tell(*request, None, Some(*outcome)),
            Local::Role(Do::Seed { .. }) => Ok(()),
        }
    }

    /// Whatever may still be written or copied is held by the slot for which it is.
    fn check(&self, _: &DecodeSetting, ranks: &[DecodeMachine<R>]) -> Result<(), &'static str> {
        let granted = |ports: &Vec<Port>, machine: &DecodeMachine<R>| {
            ports.iter().filter_map(|port| port.grant.as_ref()).all(|grant| {
                no_write_after_free::holds_for(machine.state().value(), grant.leg.slot, &grant.pages)
            })
        };
        let sound = self.ports.iter().zip(ranks).all(|(ports, machine)| granted(ports, machine));
        let mut hosts = self.hosts.iter().zip(ranks);
        if sound && hosts.all(|(host, machine)| host.sound(machine.state().value())) {
            Ok(())
        } else {
            Err(no_write_after_free::PROPERTY.id)
        }
    }

    fn heard(setting: &DecodeSetting, mut posted: Posted<Site>) -> Posted<Site> {
        if let (Some(field), Kind::MinReduce) = (setting.unheard, posted.ticket.kind) {
            field.lose(&setting.configuration, &mut posted.payload);
        }
        posted
    }

    fn agreed_digest(rank: &DecodeMachine<R>) -> u64 {
        rank.state().value().digest()
    }

    fn outside(rank: &DecodeMachine<R>) -> bool {
        *rank.position() == Position::Outside
    }

    fn left(rank: &DecodeMachine<R>) -> bool {
        *rank.position() == Position::Left
    }

    fn rested(&self, _: &DecodeSetting, ranks: &[DecodeMachine<R>]) -> bool {
        let idle = |rank: &DecodeMachine<R>| rank.state().value().idle() && rank.intake().arrivals.is_empty();
        let rests = |rank: &DecodeMachine<R>| Self::left(rank) || (Self::outside(rank) && idle(rank));
        ranks.iter().all(rests) && self.clients.are_gone()
    }

    fn benign(fact: &DecodeFact) -> bool {
        match fact {
            Fact::Retired { .. } | Fact::Copied(_) => true,
            Fact::PauseWanted(paused) => !paused,
            Fact::Submitted(_) | Fact::AbortWanted(_) | Fact::ShutdownWanted | Fact::Broken | Fact::Tick => {
                false
            }
            Fact::Role((_, fact)) => match fact {
                LegFact::HandshakeDone | LegFact::Published | LegFact::PagesLanded | LegFact::Fenced => true,
                LegFact::RowLanded(row) => row.sound,
                LegFact::HandshakeFailed | LegFact::TransferFailed => false,
            },
        }
    }

    fn obligations(setting: &DecodeSetting) -> Vec<Obligation> {
        let subject = |slot| Obligation {
            property: admission_fair::PROPERTY.id,
            subject: format!("the request in slot {slot}"),
        };
        (0..setting.slots()).filter(|_| setting.fair).map(subject).collect()
    }

    fn pending(ranks: &[DecodeMachine<R>]) -> u32 {
        let live = |slot: &Slot<Tenant>| slot.occupant.as_ref().is_some_and(|tenant| !tenant.ended());
        let slots = ranks[0].state().value().slots.iter().enumerate();
        slots.filter(|(_, slot)| live(slot)).fold(0, |pending, (slot, _)| pending | 1 << slot)
    }

    fn owed(setting: &DecodeSetting) -> Vec<String> {
        let (slots, copies) = (setting.slots(), setting.configuration.host_pages > 0);
        let of_rank = |rank| {
            let of_slots =
                (0..slots).flat_map(move |slot| OWED.map(|what| format!("rank {rank}, slot {slot}: {what}")));
            of_slots.chain(copies.then(|| format!("rank {rank}'s copies are made")))
        };
        (0..setting.configuration.ranks).flat_map(of_rank).collect()
    }

    fn owes(setting: &DecodeSetting, rank: usize, fact: &DecodeFact) -> Option<usize> {
        let of_slots = OWED.len() * setting.slots();
        let of_rank = of_slots + usize::from(setting.configuration.host_pages > 0);
        let index = match fact {
            Fact::Copied(_) => of_slots,
            Fact::Role((leg, LegFact::HandshakeDone)) => OWED.len() * leg.slot.index(),
            Fact::Role((leg, LegFact::Published)) => OWED.len() * leg.slot.index() + 1,
            Fact::Role((leg, LegFact::PagesLanded)) => OWED.len() * leg.slot.index() + 2,
            Fact::Role((leg, LegFact::RowLanded(row))) if row.sound => OWED.len() * leg.slot.index() + 3,
            Fact::Role((leg, LegFact::Fenced)) => OWED.len() * leg.slot.index() + 4,
            Fact::Role((_, LegFact::HandshakeFailed | LegFact::RowLanded(_) | LegFact::TransferFailed))
            | Fact::Retired { .. }
            | Fact::Submitted(_)
            | Fact::AbortWanted(_)
            | Fact::PauseWanted(_)
            | Fact::ShutdownWanted
            | Fact::Broken
            | Fact::Tick => return None,
        };
        Some(of_rank * rank + index)
    }

    fn points() -> Vec<String> {
        coverage::decode::POINTS.names()
    }

    fn note_fact(fact: &DecodeFact, notes: &mut Notes) {
        coverage::decode::note_fact(fact, notes);
    }

    fn standings(rank: &DecodeMachine<R>) -> Vec<Standing> {
        coverage::decode::standings(rank)
    }

    fn note_decision(before: &[Standing], rank: &DecodeMachine<R>, locals: &[Local<Do>], notes: &mut Notes) {
        coverage::decode::note_decision(before, rank, locals, notes);
    }

    fn describe(&self, rank: &DecodeMachine<R>, index: usize) -> Vec<(String, String)> {
        facts::describe(self, rank, index)
    }

    fn traces(setting: &DecodeSetting, happened: Vec<Happened<DecodeMachine<R>>>) -> Vec<String> {
        traces::written(&setting.configuration, happened)
    }
}

impl<R: Rules> Counters for Surroundings<R> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.ports.iter_mut().for_each(|ports| ports.visit(visit));
        self.hosts.iter_mut().for_each(|host| host.visit(visit));
        self.clients.visit(visit);
        self.devices.iter_mut().flatten().for_each(|queued| visit(Counter::Forward, &mut queued.forward.0));
    }
}
