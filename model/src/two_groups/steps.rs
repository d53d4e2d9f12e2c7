//! Which steps may come next.

use crate::decode::facts::waits_for_prefill;
use crate::two_groups::ends::PrefillEnd;
use crate::two_groups::front_end::Line;
use crate::two_groups::pair::{Action, Pair, Side, Transit};
use crate::two_groups::setting::{Fence, Names, Setting};
use crate::two_groups::wire::{Link, Stage, Wire};
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::ids::{Leg, RequestId};
use lockstep_spec::prefill::evidence::Writes;
use lockstep_spec::prefill::leg::LegPhase;
use lockstep_spec::prefill::rules::Rules as PrefillRules;
use std::collections::BTreeSet;

impl<D: DecodeRules, P: PrefillRules> Pair<D, P> {
    /// Steps that may come next. Once a rank of a group has taken a fact, that group's ranks take theirs in order and go round before
    /// anything else happens: a fact waits for the round that votes on it, and commutes with all that happens to the other group. What
    /// breaks or dies may do so at any time.
    pub fn actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        self.possible(setting, actions);
        if let Some((side, rank)) = self.block {
            actions.retain(|action| {
                let (its, of) = action.rank(setting);
                action.interrupts() || (its == side && of.is_none_or(|of| of >= rank))
            });
        }
    }

    /// Steps that may come next, in whatever order.
    pub(super) fn possible(&self, setting: &Setting, actions: &mut Vec<Action>) {
        if self.violation.is_some() {
            return;
        }
        self.front_end_actions(setting, actions);
        for index in 0..self.links.len() {
            self.link_actions(setting, index, actions);
        }
        for rank in 0..self.decode.ranks.len() {
            self.decode_actions(setting, rank, actions);
        }
        for rank in 0..self.prefill.ranks.len() {
            self.prefill_actions(setting, rank, actions);
        }
        self.replacing_actions(setting, actions);
        actions.extend([Action::Round(Side::Decode), Action::Round(Side::Prefill)]);
    }

    /// The front end says one thing a round of the decode group, as in the decode group's own world.
    fn front_end_actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        let leader = &self.decode.ranks[0];
        if !leader.intake().arrivals.is_empty() || !leader.intake().aborts.is_empty() {
            return;
        }
        let state = leader.state().value();
        if state.free_slots() > 0 && self.stale() <= setting.lag && self.front_end.takes(setting) {
            actions.extend((0..setting.kinds.len()).map(Action::Submit));
        }
        if setting.trouble.aborts {
            let live =
                state.by_age(|tenant| !tenant.ended()).into_iter().filter(|slot| setting.fallible(*slot));
            let requests = live.filter_map(|slot| state.occupant(slot)).map(|tenant| tenant.request.id);
            actions.extend(requests.map(Action::Abort));
        }
    }

    /// Legs that are over at the decode side and about which something is on its way to the prefill side.
    fn stale(&self) -> usize {
        let wires = self.links.iter().flat_map(|link| &link.wires);
        let announced = wires.flat_map(Wire::announced);
        let tokens = self.prefill_ends.iter().flat_map(PrefillEnd::sent).map(|arrival| arrival.leg);
        let legs = announced.chain(tokens).filter(|leg| leg.epoch == self.epoch);
        let legs: BTreeSet<Leg> = legs.filter(|leg| !self.current(*leg)).collect();
        legs.len()
    }

    fn current(&self, leg: Leg) -> bool {
        let state = self.decode.ranks[0].state().value();
        let live = state.occupant(leg.slot).is_some_and(|tenant| !tenant.ended());
        live && state.leg(leg.epoch, leg.slot) == Some(leg)
    }

    /// The next request's number: later than all that either group still knows.
    pub(super) fn next_request(&self) -> RequestId {
        let decode = self.decode.ranks[0].state().value().slots.iter();
        let decode = decode.filter_map(|slot| slot.occupant.as_ref()).map(|tenant| tenant.request.id);
        let leader = &self.prefill.ranks[0];
        let slots = leader.state().value().slots.iter().filter_map(|slot| slot.occupant.as_ref());
        let prefill = slots.map(|tenant| tenant.arrival.id);
        let waiting = leader.intake().arrivals.iter().map(|arrival| arrival.id);
        let tokens = self.prefill_ends.iter().flat_map(PrefillEnd::sent).map(|arrival| arrival.id);
        let known = decode.chain(prefill).chain(waiting).chain(tokens);
        RequestId(known.map(|id| id.0 + 1).max().unwrap_or(0))
    }

    fn link_actions(&self, setting: &Setting, index: usize, actions: &mut Vec<Action>) {
        let link = &self.links[index];
        for wire in link.all_wires() {
            self.to_prefill(setting, (index, link), wire, actions);
            to_decode((index, link), wire, actions);
            troubles(setting, (index, link), wire, actions);
        }
        if setting.trouble.breaks && link.gone.is_none() && link.up() && !link.wires.iter().all(Wire::quiet) {
            actions.push(Action::Break(index));
        }
        if link.broken.decode_unaware {
            actions.push(Action::Notice(Side::Decode, index));
        }
        if link.broken.prefill_unaware || link.gone.is_some() {
            actions.push(Action::Notice(Side::Prefill, index));
        }
    }

    fn to_prefill(
        &self,
        setting: &Setting,
        (index, link): (usize, &Link),
        wire: &Wire,
        actions: &mut Vec<Action>,
    ) {
        let deliver = |transit, leg| Action::Deliver(transit, index, leg);
        if let Some((leg, Stage::Greeting)) = wire.entry
            && link.up()
        {
            actions.push(deliver(Transit::Answer, leg));
        }
        let taken = setting.coupling.names == Names::Leg || self.awaits_list(setting, index);
        let lists = wire.lists.iter().filter(|_| taken);
        actions.extend(lists.map(|list| deliver(Transit::List, list.leg)));
        actions.extend(wire.revokes.iter().map(|leg| deliver(Transit::Revoke, *leg)));
    }

    fn decode_actions(&self, setting: &Setting, rank: usize, actions: &mut Vec<Action>) {
        let fences = self.decode_ends[rank].fences.iter().filter(|leg| self.fence_ends(setting, rank, **leg));
        actions.extend(fences.map(|leg| Action::Fenced(rank, *leg)));
        if self.decode.device.completes(rank) {
            actions.push(Action::Retire(Side::Decode, rank));
        }
        // Where groups are replaced, deadlines are for a prefill side that is known to be away.
        let runs =
            setting.trouble.deadlines && (!setting.replacements.any() || self.front_end.line == Line::Down);
        if runs && self.decode_clock_matters(setting, rank) {
            actions.push(Action::Tick(Side::Decode, rank));
        }
    }

    fn prefill_actions(&self, setting: &Setting, rank: usize, actions: &mut Vec<Action>) {
        if !self.prefill_ends[rank].told.is_empty() {
            actions.push(Action::Tokens(rank));
        }
        if self.prefill.device.completes(rank) {
            actions.push(Action::Retire(Side::Prefill, rank));
        }
        if setting.trouble.deadlines
            && !setting.replacements.any()
            && self.prefill_clock_matters(setting, rank)
        {
            actions.push(Action::Tick(Side::Prefill, rank));
        }
    }

    /// A fence ends by itself; one that needs the peer's word ends when every peer has given it and has no write left.
    fn fence_ends(&self, setting: &Setting, rank: usize, leg: Leg) -> bool {
        setting.coupling.fence != Fence::Acknowledged
            || setting.links_of_decode(rank).all(|link| {
                let wire = &self.links[link].wires[leg.slot.index()];
                wire.acknowledged.contains(&leg) && wire.writes.iter().all(|write| write.leg != leg)
            })
    }

    /// Whether a tick would change a vote.
    fn decode_clock_matters(&self, setting: &Setting, rank: usize) -> bool {
        let machine = &self.decode.ranks[rank];
        let slots = machine.evidence().slots.iter().zip(&machine.state().value().slots);
        slots.into_iter().any(|(seen, slot)| {
            let waits = slot.occupant.as_ref().is_some_and(|tenant| waits_for_prefill(tenant.phase));
            waits && seen.age_ticks < setting.decode.deadline_ticks
        })
    }

    fn prefill_clock_matters(&self, setting: &Setting, rank: usize) -> bool {
        let machine = &self.prefill.ranks[rank];
        let evidence = machine.evidence();
        let slots = machine.state().value().slots.iter().zip(&evidence.writes).zip(&evidence.age_ticks);
        slots.into_iter().any(|((slot, writes), age)| {
            let waits = slot.occupant.as_ref().is_some_and(|tenant| match tenant.phase {
                LegPhase::Waiting => true,
                LegPhase::Inflight => *writes == Writes::Outstanding,
                LegPhase::Running | LegPhase::Draining(_) => false,
            });
            waits && *age < setting.prefill.deadline_ticks
        })
    }
}

fn to_decode((index, link): (usize, &Link), wire: &Wire, actions: &mut Vec<Action>) {
    let deliver = |transit, leg| Action::Deliver(transit, index, leg);
    for write in &wire.writes {
        let sent = write.to.is_some();
        if write.pages && sent {
            actions.push(deliver(Transit::Pages, write.leg));
        }
        if write.row && sent {
            actions.push(deliver(Transit::Row, write.leg));
        }
        if write.reading && sent && link.reaches(write.leg.epoch) {
            actions.push(deliver(Transit::Written, write.leg));
        }
    }
    actions.extend(wire.fails.iter().map(|leg| deliver(Transit::Fail, *leg)));
}

fn troubles(setting: &Setting, (index, _): (usize, &Link), wire: &Wire, actions: &mut Vec<Action>) {
    let trouble = setting.trouble;
    if trouble.losses {
        actions.extend(wire.revokes.iter().map(|leg| Action::Lose(Transit::Revoke, index, *leg)));
        actions.extend(wire.fails.iter().map(|leg| Action::Lose(Transit::Fail, index, *leg)));
    }
    for write in wire.writes.iter().filter(|write| setting.fallible(write.leg.slot)) {
        if trouble.write_failures && write.reading {
            actions.push(Action::WriteFails(index, write.leg));
        }
        if trouble.reposts && !write.reading && !write.pages && !write.failed {
            actions.push(Action::Repost(index, write.leg));
        }
        if setting.coupling.yields && write.reading {
            actions.push(Action::Yield(index, write.leg));
        }
    }
}
