//! Situations that a run of both groups must reach, or it proved nothing about them.

use crate::two_groups::ends::PrefillEnd;
use crate::two_groups::front_end::Line;
use crate::two_groups::model::{TwoGroups, Witness};
use crate::two_groups::pair::Pair;
use crate::two_groups::setting::Setting;
use crate::two_groups::wire::{Link, Stage, Wire, Write};
use lockstep_spec::decode::phase::Phase;
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::journal::{Account, Journal};
use lockstep_spec::prefill::leg::{LegPhase, LegTenant};
use lockstep_spec::prefill::rules::Rules as PrefillRules;

/// The witnesses that make sense under a setting.
#[must_use]
pub fn witnesses<D: DecodeRules, P: PrefillRules>(setting: &Setting) -> Vec<Witness<D, P>> {
    let trouble = setting.trouble;
    let pairs = setting.decode.slots > 1;
    let replaced = setting.replacements;
    let late = replaced.decode > 0;
    let away = replaced.prefill > 0;
    let possible: [(bool, Witness<D, P>); 16] = [
        (true, ("decode's table is full", decode_full)),
        (true, ("prefill's table is full", prefill_full)),
        (runs_together(setting), ("forwards run on both sides at once", both_run)),
        (
            pairs && setting.decode.slots > setting.prefill.slots,
            ("a listed leg waits for a slot", waits_for_slot),
        ),
        (trouble.aborts, ("a revocation is about to overtake its list", revoked_on_the_way)),
        (trouble.aborts, ("a write may land after the fence was asked for", late_write)),
        (trouble.aborts, ("a later leg is asked for while prefill holds an earlier one", overtaken)),
        (trouble.write_failures, ("a leg failed at the prefill side", failed)),
        (trouble.breaks, ("one end knows of a break and the other does not", half_known)),
        (outgrows(setting), ("a request resumes", resumes)),
        (late, ("a gone decode group's list is about to arrive, and the next one runs", late_list)),
        (late, ("prefill writes for a gone decode group", late_for_nobody)),
        (late, ("a leg of a gone decode group has its tokens alone", tokens_alone)),
        (
            late && setting.links() > 1,
            ("one link is to the next decode group, and another to the last", half_replaced),
        ),
        (
            away,
            ("a leg was asked for over a line that had ended, and its handshake is answered", asked_in_vain),
        ),
        (away, ("a retry is spent on prefill's end", retry_spent)),
    ];
    possible.into_iter().filter(|(possible, _)| *possible).map(|(_, witness)| witness).collect()
}

/// Whether two requests can hold decode pages at once: each starts with the page of its first launch.
fn runs_together(setting: &Setting) -> bool {
    let starts = setting.kinds.iter().map(|kind| kind.prompt + 1).max().unwrap_or(0);
    setting.decode.slots > 1 && 2 * starts <= setting.decode.pages
}

/// Whether two requests that run together can come to need more pages than there are.
fn outgrows(setting: &Setting) -> bool {
    let ends = setting.kinds.iter().map(|kind| kind.prompt + kind.most - 1).max().unwrap_or(0);
    runs_together(setting) && 2 * ends > setting.decode.pages
}

type Model<D, P> = TwoGroups<D, P>;

fn decode_full<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    pair.decode.ranks[0].state().value().free_slots() == 0
}

fn prefill_full<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    pair.prefill.ranks[0].state().value().free_slots() == 0
}

fn both_run<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    !pair.decode.device.is_empty() && !pair.prefill.device.is_empty()
}

fn waits_for_slot<D: DecodeRules, P: PrefillRules>(model: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let leader = &pair.prefill.ranks[0];
    let listed = |leg| leader.evidence().listed(leg);
    prefill_full(model, pair) && leader.intake().arrivals.iter().any(|arrival| listed(arrival.leg))
}

fn wires<D: DecodeRules, P: PrefillRules>(pair: &Pair<D, P>) -> impl Iterator<Item = &Wire> {
    pair.links.iter().flat_map(|link| &link.wires)
}

fn revoked_on_the_way<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    wires(pair).any(|wire| wire.lists.iter().any(|list| wire.revokes.contains(&list.leg)))
}

fn late_write<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let fences = || pair.decode_ends.iter().flat_map(|end| &end.fences);
    let late = |write: &Write| write.pages && fences().any(|leg| write.leg == *leg);
    wires(pair).any(|wire| wire.writes.iter().any(late))
}

fn overtaken<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let asked = || pair.prefill_ends.iter().flat_map(PrefillEnd::sent).map(|arrival| arrival.leg);
    let held = |tenant: &LegTenant| {
        let leg = tenant.arrival.leg;
        let live = !matches!(tenant.phase, LegPhase::Draining(_));
        live && asked().any(|later| later.slot == leg.slot && later > leg)
    };
    let slots = &pair.prefill.ranks[0].state().value().slots;
    slots.iter().filter_map(|slot| slot.occupant.as_ref()).any(held)
}

fn failed<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    wires(pair).any(|wire| !wire.fails.is_empty())
}

fn half_known<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    pair.links.iter().any(|link| link.broken.decode_unaware != link.broken.prefill_unaware)
}

fn gone_wires<D: DecodeRules, P: PrefillRules>(pair: &Pair<D, P>) -> impl Iterator<Item = &Wire> {
    pair.links.iter().filter_map(|link| link.gone.as_ref()).flat_map(|gone| &gone.wires)
}

fn late_list<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let occupied = !pair.decode.ranks[0].state().value().idle();
    occupied && gone_wires(pair).any(|wire| !wire.lists.is_empty())
}

fn late_for_nobody<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    gone_wires(pair).any(|wire| wire.writes.iter().any(|write| write.reading))
}

fn tokens_alone<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let parts = pair.prefill_ends.iter().flat_map(|end| &end.parts);
    let connected = || pair.links.iter().any(|link| link.gone.is_some());
    !connected() && parts.into_iter().any(|parts| parts.leg.epoch < pair.epoch && !parts.listed())
}

fn half_replaced<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let old = |link: &Link| link.gone.is_some();
    pair.links.iter().any(old) && pair.links.iter().any(|link| !old(link) && link.epoch.0 > 0)
}

fn asked_in_vain<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let mut legs = pair.front_end.wanted.iter().map(|wanted| wanted.leg);
    let shaken = |leg| pair.links.iter().any(|link| link.wires.iter().any(|wire| wire.is(leg, Stage::Ready)));
    pair.front_end.line == Line::Lost && legs.any(shaken)
}

fn retry_spent<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let open = pair.front_end.journal.iter().flat_map(|journal: &Journal| journal.open().values());
    pair.front_end.line == Line::Lost && open.into_iter().any(|account: &Account| account.retries > 0)
}

fn resumes<D: DecodeRules, P: PrefillRules>(_: &Model<D, P>, pair: &Pair<D, P>) -> bool {
    let slots = &pair.decode.ranks[0].state().value().slots;
    let mut tenants = slots.iter().filter_map(|slot| slot.occupant.as_ref());
    tenants.any(|tenant| tenant.phase == Phase::Transferring && tenant.generated > 0)
}
