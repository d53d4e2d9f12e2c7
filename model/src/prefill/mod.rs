//! The prefill group in its world: N real machines, a decode group that never runs out of legs and may give any up, and writes that
//! complete or fail in any order.
//!
//! What is left out: a page list that overtakes its leg (it changes nothing until the leg is submitted), and messages to a rank about a
//! leg whose successor was asked for (they are level-triggered, so the newest replaces them).
//!
//! Reading order: [`setting`] (bounds), [`peer`] (the ghosts), then [`Surroundings`] here, `facts` (what may happen), [`witnesses`],
//! [`mutants`].

mod facts;
pub mod memory;
pub mod mutants;
pub mod peer;
pub mod setting;
pub mod witnesses;

use crate::coverage;
use crate::decode::setting::PLAIN;
use crate::explore::{Notes, fingerprint};
use crate::group::arrange;
use crate::prefill::memory::Memory;
use crate::prefill::peer::{DecodeSlot, Order, Write};
use crate::prefill::setting::PrefillSetting;
use crate::traces::{self, Happened};
use crate::world::{Completion, Environment, Interleaving, Standing};
use lockstep_spec::counters::{Counter, Counters, visit_peer};
use lockstep_spec::ids::{ForwardId, Leg, PageId, RankIndex};
use lockstep_spec::invariant::{kv_before_run, no_write_after_free};
use lockstep_spec::machine::{Fact, Local, Position};
use lockstep_spec::prefill::PrefillMachine;
use lockstep_spec::prefill::action::Do;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::{LegTenant, PrefillLeg};
use lockstep_spec::prefill::rules::Rules;
use lockstep_spec::table::{Row, State};
use std::marker::PhantomData;
use std::sync::Arc;

/// A forward that a rank's device has in its queue, with whose KV it computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queued {
    forward: ForwardId,
    legs: Vec<Leg>,
}

/// What surrounds the ranks of a prefill group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Surroundings<R> {
    /// By slot of the decode group.
    pub decode: Vec<DecodeSlot>,
    /// Whether a leg was asked for in this round of the prefill group: one at most, since more could only replace each other before
    /// anyone is told.
    pub asked: bool,
    /// Whether some rank was asked to leave.
    pub shutdown: bool,
    /// By rank: posted and not completed.
    pub writes: Vec<Vec<Write>>,
    /// By rank, oldest first.
    pub devices: Vec<Vec<Queued>>,
    /// By rank: tokens of each leg that were queued on the device, by leg.
    pub computed: Vec<Vec<(Leg, u32)>>,
    /// By rank.
    pub memories: Vec<Memory>,
    rules: PhantomData<R>,
}

/// What reaches a prefill rank.
pub type PrefillFact = Fact<PrefillLeg, (Leg, WriteFact)>;

impl<R: Rules> Surroundings<R> {
    fn order(&mut self, leg: Leg) -> Option<&mut Order> {
        self.decode[leg.slot.index()].order(leg)
    }

    /// Tokens of a leg that were queued on a rank's device.
    fn computed(&self, rank: usize, leg: Leg) -> u32 {
        self.computed[rank].iter().find(|(computed, _)| *computed == leg).map_or(0, |(_, tokens)| *tokens)
    }

    fn forget(&mut self, rank: usize, leg: Leg) {
        self.computed[rank].retain(|(computed, _)| *computed != leg);
    }

    /// A leg may run once every decode rank has said what is to be computed and where it goes, and its chunks follow each other, and what
    /// it did not have to compute.
    fn launch(
        &mut self,
        machine: &PrefillMachine<R>,
        rank: usize,
        (forward, rows): (ForwardId, &[Row]),
        page_size: u32,
    ) -> Result<(), &'static str> {
        let state = machine.state().value();
        let mut legs = Vec::new();
        for row in rows {
            let arrival = state.occupant(row.slot).map(|tenant| &tenant.arrival);
            let listed = arrival.filter(|PrefillLeg { leg, .. }| self.decode[leg.slot.index()].listed(*leg));
            let PrefillLeg { leg, keys, .. } = listed.ok_or(kv_before_run::PROPERTY.id)?;
            let (leg, computed) = (*leg, self.computed(rank, *leg));
            let found = computed == 0 && (row.position / page_size) as usize <= keys.len();
            if computed != row.position && !found {
                return Err(kv_before_run::PROPERTY.id);
            }
            self.memories[rank].compute(state, row, keys, page_size)?;
            self.forget(rank, leg);
            self.computed[rank].push((leg, row.position + row.tokens));
            self.computed[rank].sort_unstable();
            legs.push(leg);
        }
        self.devices[rank].push(Queued { forward, legs });
        Ok(())
    }

    /// A write reads what its forwards have computed, all of it.
    fn post(
        &mut self,
        machine: &PrefillMachine<R>,
        rank: usize,
        leg: Leg,
        pages: &[PageId],
    ) -> Result<(), &'static str> {
        let arrival = arrival(machine, leg).ok_or(kv_before_run::PROPERTY.id)?;
        let computing = self.devices[rank].iter().any(|queued| queued.legs.contains(&leg));
        if computing || self.computed(rank, leg) != arrival.tokens {
            return Err(kv_before_run::PROPERTY.id);
        }
        self.memories[rank].read(pages, &arrival.keys)?;
        self.writes[rank].push(Write { leg, pages: pages.to_vec() });
        Ok(())
    }

    fn took_place(&mut self, rank: usize, leg: Leg, fact: WriteFact) {
        if matches!(fact, WriteFact::Written | WriteFact::WriteFailed) {
            self.writes[rank].retain(|write| write.leg != leg);
        }
        if let Some(order) = self.order(leg) {
            order.took_place(rank, fact);
        }
    }
}

impl<R: Rules> Environment for Surroundings<R> {
    type Program = PrefillMachine<R>;
    type Setting = PrefillSetting;

    fn genesis(setting: &PrefillSetting) -> (Vec<PrefillMachine<R>>, Self) {
        let ranks = setting.configuration.ranks;
        let machine = |rank| PrefillMachine::new(Arc::clone(&setting.configuration), RankIndex(rank));
        let surroundings = Self {
            decode: vec![DecodeSlot::default(); setting.decode_slots as usize],
            asked: false,
            shutdown: false,
            writes: vec![Vec::new(); ranks as usize],
            devices: vec![Vec::new(); ranks as usize],
            computed: vec![Vec::new(); ranks as usize],
            memories: vec![
                Memory::new(setting.configuration.pages, setting.configuration.host_pages);
                ranks as usize
            ],
            rules: PhantomData,
        };
        ((0..ranks).filter_map(|rank| machine(rank).ok()).collect(), surroundings)
    }

    fn interleaving(setting: &PrefillSetting) -> Interleaving {
        setting.interleaving
    }

    fn completion(setting: &PrefillSetting) -> Completion {
        setting.completion
    }

    fn symmetric(setting: &PrefillSetting) -> bool {
        setting.symmetric
    }

    fn part(&self, rank: usize) -> u128 {
        let said = self.decode.iter().map(|slot| slot.current.as_ref().map(|order| order.said[rank]));
        let own = (&self.writes[rank], &self.devices[rank], &self.computed[rank], &self.memories[rank]);
        fingerprint(&(own, said.collect::<Vec<_>>()))
    }

    fn arrange(&mut self, order: &[usize]) {
        arrange(&mut self.writes, order);
        arrange(&mut self.devices, order);
        arrange(&mut self.computed, order);
        arrange(&mut self.memories, order);
        let asked = self.decode.iter_mut().filter_map(|slot| slot.current.as_mut());
        asked.for_each(|asked| arrange(&mut asked.said, order));
    }

    fn facts(
        &self,
        setting: &PrefillSetting,
        ranks: &[PrefillMachine<R>],
        rank: usize,
        facts: &mut Vec<PrefillFact>,
    ) {
        self.front_end_facts(setting, &ranks[rank], facts);
        self.peer_facts(setting, rank, facts);
        self.copy_facts(rank, facts);
        if setting.deadlines && facts::clock_matters(setting, &ranks[rank]) {
            facts.push(Fact::Tick);
        }
        if setting.shutdown && !self.shutdown {
            facts.push(Fact::ShutdownWanted);
        }
    }

    fn delivered(&mut self, setting: &PrefillSetting, rank: usize, fact: &PrefillFact) {
        match fact {
            Fact::Role((leg, fact)) => self.took_place(rank, *leg, *fact),
            Fact::Submitted(PrefillLeg { id, leg, .. }) => {
                let order = Order::new(*leg, *id, setting.configuration.ranks as usize);
                self.decode[leg.slot.index()].ask(order);
                self.asked = true;
            }
            Fact::ShutdownWanted => self.shutdown = true,
            Fact::Copied(_) => self.memories[rank].complete(),
            Fact::Retired { .. }
            | Fact::AbortWanted(_)
            | Fact::PauseWanted(_)
            | Fact::Broken
            | Fact::Tick => {}
        }
    }

    fn completed(&mut self, _: &PrefillSetting, _: &[PrefillMachine<R>], rank: usize) -> PrefillFact {
        let Queued { forward, legs } = self.devices[rank].remove(0);
        Fact::Retired { forward, tokens: vec![PLAIN; legs.len()] }
    }

    fn perform(
        &mut self,
        setting: &PrefillSetting,
        ranks: &[PrefillMachine<R>],
        rank: usize,
        local: &Local<Do>,
    ) -> Result<(), &'static str> {
        match local {
            Local::Launch { forward, rows } => {
                self.launch(&ranks[rank], rank, (*forward, rows), setting.configuration.page_size)
            }
            Local::Decided(_) => {
                self.memories[rank].forget_free(ranks[rank].state().value());
                Ok(())
            }
            Local::Role(Do::Write { leg, pages, .. }) => self.post(&ranks[rank], rank, *leg, pages),
            Local::Role(Do::Copy(copy)) => {
                let mut blocks = ranks[rank].state().value().cache.blocks().iter();
                let block = blocks.find(|block| block.page == Some(copy.page));
                let key = block.ok_or(kv_before_run::PROPERTY.id)?.key;
                self.memories[rank].start(*copy, key);
                Ok(())
            }
            Local::Role(Do::Fail { leg, .. }) => {
                if let Some(order) = self.order(*leg) {
                    order.ended = true;
                }
                Ok(())
            }
            Local::Role(Do::Forget { leg }) => {
                self.decode[leg.slot.index()].forget(*leg, setting.late_facts);
                self.forget(rank, *leg);
                Ok(())
            }
        }
    }

    fn round_ended(&mut self) {
        self.asked = false;
    }

    /// Whatever a posted write may still read is held by the leg that it is of.
    fn check(&self, _: &PrefillSetting, ranks: &[PrefillMachine<R>]) -> Result<(), &'static str> {
        let sound = self
            .writes
            .iter()
            .zip(ranks)
            .all(|(writes, machine)| writes.iter().all(|write| holds(machine.state().value(), write)));
        let copies = self.memories.iter().all(Memory::sound);
        if sound && copies { Ok(()) } else { Err(no_write_after_free::PROPERTY.id) }
    }

    fn agreed_digest(rank: &PrefillMachine<R>) -> u64 {
        rank.state().value().digest()
    }

    fn outside(rank: &PrefillMachine<R>) -> bool {
        *rank.position() == Position::Outside
    }

    fn left(rank: &PrefillMachine<R>) -> bool {
        *rank.position() == Position::Left
    }

    fn rested(&self, _: &PrefillSetting, ranks: &[PrefillMachine<R>]) -> bool {
        let idle =
            |rank: &PrefillMachine<R>| rank.state().value().idle() && rank.intake().arrivals.is_empty();
        ranks.iter().all(|rank| Self::left(rank) || (Self::outside(rank) && idle(rank)))
    }

    fn benign(fact: &PrefillFact) -> bool {
        match fact {
            Fact::Retired { .. } | Fact::Copied(_) => true,
            Fact::PauseWanted(paused) => !paused,
            Fact::Submitted(_) | Fact::AbortWanted(_) | Fact::ShutdownWanted | Fact::Broken | Fact::Tick => {
                false
            }
            Fact::Role((_, fact)) => match fact {
                WriteFact::Listed | WriteFact::Written => true,
                WriteFact::Revoked | WriteFact::WriteFailed => false,
            },
        }
    }

    fn points() -> Vec<String> {
        coverage::prefill::POINTS.names()
    }

    fn note_fact(fact: &PrefillFact, notes: &mut Notes) {
        coverage::prefill::note_fact(fact, notes);
    }

    fn standings(rank: &PrefillMachine<R>) -> Vec<Standing> {
        coverage::prefill::standings(rank)
    }

    fn note_decision(before: &[Standing], rank: &PrefillMachine<R>, locals: &[Local<Do>], notes: &mut Notes) {
        coverage::prefill::note_decision(before, rank, locals, notes);
    }

    fn describe(&self, rank: &PrefillMachine<R>, index: usize) -> Vec<(String, String)> {
        facts::describe(self, rank, index)
    }

    fn traces(setting: &PrefillSetting, happened: Vec<Happened<PrefillMachine<R>>>) -> Vec<String> {
        traces::written(&setting.configuration, happened)
    }
}

/// A leg in the table.
fn arrival<R: Rules>(machine: &PrefillMachine<R>, leg: Leg) -> Option<&PrefillLeg> {
    let mut tenants = machine.state().value().slots.iter().filter_map(|slot| slot.occupant.as_ref());
    tenants.find(|tenant| tenant.arrival.leg == leg).map(|tenant| &tenant.arrival)
}

/// Whether the pages of a posted write are still held by its leg.
fn holds(state: &State<LegTenant>, write: &Write) -> bool {
    let of_leg = |tenant: &LegTenant| tenant.arrival.leg == write.leg;
    let slot = state.by_age(of_leg).first().copied();
    slot.is_some_and(|slot| no_write_after_free::holds_for(state, slot, &write.pages))
}

impl<R: Rules> Counters for Surroundings<R> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.decode.visit(visit);
        self.writes.iter_mut().flatten().for_each(|write| visit_peer(&mut write.leg, visit));
        for queued in self.devices.iter_mut().flatten() {
            visit(Counter::Forward, &mut queued.forward.0);
            queued.legs.iter_mut().for_each(|leg| visit_peer(leg, visit));
        }
        self.computed.iter_mut().flatten().for_each(|(leg, _)| visit_peer(leg, visit));
        self.memories.visit(visit);
    }
}
