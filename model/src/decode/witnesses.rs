//! Situations that an exploration of the decode group must reach, or it proved nothing about them.
//!
//! Which are reached depends on the setting: what two requests do together needs pages for both, and retraction fewer than both grow to.

use crate::decode::Surroundings;
use crate::decode::fabric::{Handshake, Port};
use crate::decode::setting::{Breakage, DecodeSetting};
use crate::model::{Witness, WorldModel};
use crate::world::World;
use lockstep_spec::brief::Brief;
use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::decode::DecodeMachine;
use lockstep_spec::decode::evidence::Grant;
use lockstep_spec::decode::phase::{Phase, Tenant};
use lockstep_spec::decode::request::Request;
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::ids::SlotIndex;
use lockstep_spec::machine::Position;
use lockstep_spec::table::{Slot, State};

/// The witnesses that make sense under a setting.
#[must_use]
pub fn witnesses<R: Rules>(setting: &DecodeSetting) -> Vec<Witness<Surroundings<R>>> {
    let overlap = setting.configuration.flights > 1;
    let stops = setting.kinds.iter().any(|kind| kind.stop_at.is_some());
    let together = runs_together(setting);
    let retracts = together && outgrows(setting);
    let hosted = retracts && setting.configuration.host_pages > 0;
    let resumes = retracts && lacks_hosts(setting);
    let breaks = |breakage| setting.breaks(breakage);
    let several = setting.words > 1;
    let possible: [(bool, Witness<Surroundings<R>>); 26] = [
        (true, ("a forward runs", forward_runs)),
        (true, ("full table", full_table)),
        (together, ("two requests in one plan", two_in_one_plan)),
        (together, ("allocation while a forward is in flight", allocation_in_flight)),
        (setting.aborts, ("abort during transfer", abort_during_transfer)),
        (setting.aborts || (overlap && stops), ("a surplus launch", surplus_launch)),
        (overlap, ("two forwards in flight", two_flights)),
        (setting.configuration.ranks > 1, ("a rank retires ahead of the group", retired_ahead)),
        (retracts, ("retraction with a forward in flight", retraction)),
        (resumes, ("resume", resume)),
        (hosted, ("a copy on its way to the hosts", storing)),
        (hosted, ("a copy on its way back", restoring)),
        (hosted && resumes, ("a request that gives its pages up without a copy", uncopied)),
        (breaks(Breakage::Handshake), ("a handshake failed", handshake_failed)),
        (breaks(Breakage::Transfer), ("a transfer broke", transfer_broke)),
        (breaks(Breakage::Deadline), ("a deadline passed", deadline_passed)),
        (
            breaks(Breakage::Deadline) && resumes,
            ("a deadline of a retracted request's handshake passed", retracted_late),
        ),
        (setting.late_facts, ("an answer is late", late_answer)),
        (setting.pause, ("paused with a request that could run", paused)),
        (setting.pause, ("paused with a forward in flight", paused_in_flight)),
        (setting.shutdown, ("the group left", left)),
        (several, ("a request waits for a slot", waits_for_slot)),
        (several && setting.slots() > 1, ("two requests in one brief", two_requests_briefed)),
        (several && setting.aborts && setting.slots() > 1, ("two aborts in one brief", two_aborts_briefed)),
        (
            several && setting.aborts && setting.slots() > 1,
            ("a request and an abort in one brief", both_briefed),
        ),
        (several && setting.pause, ("a pause and another word in one brief", pause_briefed)),
    ];
    possible.into_iter().filter(|(possible, _)| *possible).map(|(_, witness)| witness).collect()
}

/// Whether two requests can hold pages at once: each starts with the page of its first launch.
fn runs_together(setting: &DecodeSetting) -> bool {
    let configuration = &setting.configuration;
    let starts = setting.kinds.iter().map(|kind| configuration.pages_for(kind.prompt + 1));
    setting.slots() > 1 && starts.min().is_some_and(|pages| 2 * pages <= configuration.pages as usize)
}

/// Whether two requests can come to need more pages than there are.
fn outgrows(setting: &DecodeSetting) -> bool {
    let configuration = &setting.configuration;
    let ends = setting.kinds.iter().map(|kind| configuration.pages_for(kind.prompt + kind.most - 1));
    ends.max().is_some_and(|pages| 2 * pages > configuration.pages as usize)
}

/// Whether a request may have to give more pages up than the hosts have: all but those with which another one starts.
fn lacks_hosts(setting: &DecodeSetting) -> bool {
    let GroupConfiguration { pages, host_pages, .. } = *setting.configuration;
    let starts = setting.kinds.iter().map(|kind| setting.configuration.pages_for(kind.prompt + 1));
    starts.min().is_some_and(|others| host_pages as usize + others < pages as usize)
}

type Model<R> = WorldModel<Surroundings<R>>;
type Group<R> = World<Surroundings<R>>;

fn state<R: Rules>(world: &Group<R>) -> &State<Tenant> {
    world.group.ranks[0].state().value()
}

/// Slots whose occupant is in a phase.
fn slots<R: Rules>(
    world: &Group<R>,
    phase: fn(Phase) -> bool,
) -> impl Iterator<Item = (SlotIndex, &Slot<Tenant>)> {
    let inside = move |slot: &Slot<Tenant>| slot.occupant.as_ref().is_some_and(|tenant| phase(tenant.phase));
    state(world).enumerate().filter(move |(_, slot)| inside(slot))
}

fn draining(phase: Phase) -> bool {
    matches!(phase, Phase::Draining(_))
}

fn transferring(phase: Phase) -> bool {
    phase == Phase::Transferring
}

fn forward_runs<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    (0..world.group.ranks.len()).all(|rank| world.group.retires(rank))
}

fn two_in_one_plan<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).flights.queue.iter().any(|flight| flight.rows.len() > 1)
}

/// It ended while the peer might write, on every rank, and KV is not whole anywhere.
fn abort_during_transfer<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let unwhole =
        |slot: SlotIndex| world.environment.ports.iter().all(|ports| ports[slot.index()].whole.is_none());
    let revoking = |slot: SlotIndex| {
        let seen = world.group.ranks.iter().filter_map(|rank| rank.evidence().slots.get(slot.index()));
        seen.into_iter().all(|seen| seen.grant == Grant::Revoking)
    };
    slots(world, draining).any(|(slot, _)| unwhole(slot) && revoking(slot))
}

fn retraction<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let retracting = |phase| phase == Phase::Retracting;
    slots(world, retracting).any(|(slot, _)| state(world).flights.naming(slot) > 0)
}

fn storing<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    slots(world, |phase| phase == Phase::Retracting).any(|(_, slot)| copies(world, slot) > 0)
}

fn restoring<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    slots(world, |phase| phase == Phase::Restoring).any(|(_, slot)| copies(world, slot) > 0)
}

fn uncopied<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let retracting = |phase| phase == Phase::Retracting;
    slots(world, retracting)
        .filter_map(|(_, slot)| slot.occupant.as_ref())
        .any(|tenant| tenant.host_pages.is_empty())
}

/// Copies of a slot's pages that are under way.
fn copies<R: Rules>(world: &Group<R>, slot: &Slot<Tenant>) -> usize {
    let pages = slot.occupant.as_ref().map_or(&[][..], |tenant| &tenant.pages);
    state(world).host.copies().iter().filter(|copy| pages.contains(&copy.page)).count()
}

/// It has tokens from before.
fn resume<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let resumed = |slot: &Slot<Tenant>| slot.occupant.as_ref().is_some_and(|tenant| tenant.generated > 0);
    slots(world, transferring).any(|(_, slot)| resumed(slot))
}

fn surplus_launch<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    slots(world, draining).any(|(slot, _)| state(world).flights.naming(slot) > 0)
}

/// The pages were taken while a forward was in flight: their publish is still queued.
fn allocation_in_flight<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let queued = |slot: SlotIndex| {
        let mut seen = world.group.ranks.iter().filter_map(|rank| rank.evidence().slots.get(slot.index()));
        seen.any(|seen| seen.grant == Grant::Queued)
    };
    let flying = !state(world).flights.queue.is_empty();
    flying && slots(world, transferring).any(|(slot, _)| queued(slot))
}

fn full_table<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).free_slots() == 0
}

fn retired_ahead<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let ahead = || world.group.ranks.iter().map(|rank| rank.retired_ahead());
    ahead().max() > ahead().min()
}

fn two_flights<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).flights.queue.len() > 1
}

fn handshake_failed<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    world.ports().any(|port| matches!(port.handshake, Handshake::Failed(_)))
}

fn transfer_broke<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    world.ports().any(|port| port.grant.as_ref().is_some_and(|grant| grant.broken))
}

fn deadline_passed<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let seen = |rank: &DecodeMachine<R>| rank.evidence().slots.iter().any(|slot| slot.age_ticks > 0);
    world.group.ranks.iter().any(seen)
}

fn retracted_late<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let late = |rank: &DecodeMachine<R>, slot: SlotIndex| rank.evidence().slots[slot.index()].age_ticks > 0;
    let ranks = &world.group.ranks;
    slots(world, |phase| phase == Phase::Retracted).any(|(slot, _)| ranks.iter().any(|rank| late(rank, slot)))
}

fn late_answer<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    world.ports().any(|port| port.late.is_some())
}

fn paused<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).paused && slots(world, |phase| phase == Phase::Ready).next().is_some()
}

fn paused_in_flight<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).paused && !state(world).flights.queue.is_empty()
}

fn left<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    world.group.ranks.iter().all(|rank| *rank.position() == Position::Left)
}

fn waits_for_slot<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).free_slots() == 0 && !world.group.ranks[0].intake().arrivals.is_empty()
}

/// Whether the leader has frozen a brief of this form with its vote.
fn briefed<R: Rules>(world: &Group<R>, form: fn(&Brief<Request>) -> bool) -> bool {
    match world.group.ranks[0].position() {
        Position::Voting { brief, .. } => Brief::decode(brief).is_ok_and(|brief| form(&brief)),
        Position::Outside | Position::Briefing { .. } | Position::Left | Position::Faulted(_) => false,
    }
}

fn two_requests_briefed<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    briefed(world, |brief| brief.arrivals.len() > 1)
}

fn two_aborts_briefed<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    briefed(world, |brief| brief.aborts.len() > 1)
}

fn both_briefed<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    briefed(world, |brief| !brief.arrivals.is_empty() && !brief.aborts.is_empty())
}

fn pause_briefed<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    briefed(world, |brief| brief.pause.is_some() && !(brief.arrivals.is_empty() && brief.aborts.is_empty()))
}

impl<R: Rules> Group<R> {
    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.environment.ports.iter().flatten()
    }
}
