//! Which facts may reach a prefill rank, and the drawing of a rank.

use crate::prefill::peer::Said;
use crate::prefill::setting::{PrefillSetting, Prompt};
use crate::prefill::{PrefillFact, Surroundings};
use lockstep_spec::cache::Block;
use lockstep_spec::host::Copy;
use lockstep_spec::ids::{Leg, RequestId, SlotIndex};
use lockstep_spec::machine::Fact;
use lockstep_spec::prefill::PrefillMachine;
use lockstep_spec::prefill::evidence::{WriteFact, Writes};
use lockstep_spec::prefill::leg::{LegPhase, LegTenant, PrefillLeg};
use lockstep_spec::prefill::rules::Rules;
use lockstep_spec::table::State;

impl<R: Rules> Surroundings<R> {
    /// The decode group always has another leg for a slot that is free. It is at most one leg ahead of one that may still run.
    pub(super) fn front_end_facts(
        &self,
        setting: &PrefillSetting,
        machine: &PrefillMachine<R>,
        facts: &mut Vec<PrefillFact>,
    ) {
        let state = machine.state().value();
        if !machine.leads() || machine.has_news() || self.asked || state.closing {
            return;
        }
        if setting.pause {
            facts.push(Fact::PauseWanted(!state.paused));
        }
        let id = self.next_id(machine);
        for (slot, decode) in (0..).map(SlotIndex).zip(&self.decode) {
            if decode.free(setting.hasty) && !decode.previous.is_some_and(|leg| holds(machine, leg)) {
                let leg = decode.next_leg(slot);
                let arrivals = setting.prompts.iter().cloned();
                let arrivals = arrivals.map(|Prompt { tokens, keys }| PrefillLeg { id, leg, tokens, keys });
                facts.extend(arrivals.map(Fact::Submitted));
            }
        }
    }

    /// The next place in acceptance order. A leg that the leader holds and that was replaced is older than its replacement.
    fn next_id(&self, machine: &PrefillMachine<R>) -> RequestId {
        let tenants = machine.state().value().slots.iter().filter_map(|slot| slot.occupant.as_ref());
        let asked = self.decode.iter().filter_map(|decode| decode.current.as_ref()?.id);
        let ids = tenants.map(|tenant| tenant.arrival.id).chain(asked);
        RequestId(ids.map(|id| id.0 + 1).max().unwrap_or(0))
    }

    /// A rank's device has completed the oldest of its copies.
    pub(super) fn copy_facts(&self, rank: usize, facts: &mut Vec<PrefillFact>) {
        facts.extend(self.memories[rank].copies().next().map(|copy| Fact::Copied(copy.id)));
    }

    /// What the decode peer of a rank may say, and how its writes may end.
    pub(super) fn peer_facts(&self, setting: &PrefillSetting, rank: usize, facts: &mut Vec<PrefillFact>) {
        let mut push = |leg, fact| facts.push(Fact::Role((leg, fact)));
        for order in self.decode.iter().filter_map(|decode| decode.current.as_ref()) {
            let said = order.said[rank];
            if said == Said::Nothing {
                push(order.leg, WriteFact::Listed);
            }
            let revocable = setting.revocations && setting.fallible(order.leg);
            if revocable && (said == Said::Listed || (setting.hasty && said == Said::Nothing)) {
                push(order.leg, WriteFact::Revoked);
            }
        }
        for write in &self.writes[rank] {
            push(write.leg, WriteFact::Written);
            if setting.write_failures && setting.fallible(write.leg) {
                push(write.leg, WriteFact::WriteFailed);
            }
        }
    }
}

/// Whether a tick would change a vote.
pub(super) fn clock_matters<R: Rules>(setting: &PrefillSetting, machine: &PrefillMachine<R>) -> bool {
    let evidence = machine.evidence();
    let slots = machine.state().value().slots.iter().zip(&evidence.writes).zip(&evidence.age_ticks);
    slots.into_iter().any(|((slot, writes), age)| {
        let waits = slot.occupant.as_ref().is_some_and(|tenant| match tenant.phase {
            LegPhase::Waiting => true,
            LegPhase::Inflight => *writes == Writes::Outstanding,
            LegPhase::Running | LegPhase::Draining(_) => false,
        });
        waits && *age < setting.configuration.deadline_ticks
    })
}

fn holds<R: Rules>(machine: &PrefillMachine<R>, leg: Leg) -> bool {
    let mut tenants = machine.state().value().slots.iter().filter_map(|slot| slot.occupant.as_ref());
    tenants.any(|tenant| tenant.arrival.leg == leg)
}

/// A rank for a person.
pub(super) fn describe<R: Rules>(
    surroundings: &Surroundings<R>,
    machine: &PrefillMachine<R>,
    index: usize,
) -> Vec<(String, String)> {
    let state = machine.state().value();
    let mut cells = vec![("round".to_string(), machine.round().0.to_string())];
    for (slot, entry) in state.enumerate() {
        cells.push((slot.to_string(), entry.occupant.as_ref().map_or("free".to_string(), tenant)));
        let writes = machine.evidence().writes.get(slot.index());
        cells.push((format!("{slot} writes"), writes.map_or(String::new(), |writes| format!("{writes:?}"))));
    }
    let flights: Vec<String> = state.flights.queue.iter().map(|flight| flight.id.to_string()).collect();
    cells.push(("heard of decode".to_string(), listings(machine)));
    cells.push(("waiting".to_string(), machine.intake().arrivals.len().to_string()));
    cells.push(("free pages".to_string(), format!("{:?}", state.pool.free())));
    cells.extend(cache(state));
    cells.push(("in flight".to_string(), flights.join(" ")));
    cells.push(("retired ahead".to_string(), machine.retired_ahead().to_string()));
    cells.push(("device".to_string(), surroundings.devices[index].len().to_string()));
    cells.push(("writing".to_string(), surroundings.writes[index].len().to_string()));
    cells
}

fn tenant(tenant: &LegTenant) -> String {
    let LegTenant { arrival, phase, pages, launched } = tenant;
    format!("{} {} {phase:?} {launched}/{} {pages:?}", arrival.id, arrival.leg, arrival.tokens)
}

/// What is kept, least recently used first, and what is being copied; nothing if nothing is kept.
fn cache(State { cache, host, .. }: &State<LegTenant>) -> Option<(String, String)> {
    let place =
        |block: &Block| [block.page.map(|page| page.to_string()), block.host.map(|host| host.to_string())];
    let kept = |block: &Block| {
        let places: Vec<String> = place(block).into_iter().flatten().collect();
        format!("{:?} in {}", block.key, places.join(" and "))
    };
    let mut blocks: Vec<&Block> = cache.blocks().iter().collect();
    blocks.sort_unstable_by_key(|block| block.used);
    let told: Vec<String> =
        blocks.into_iter().map(kept).chain(host.copies().iter().map(Copy::to_string)).collect();
    (!told.is_empty()).then(|| ("kept".to_string(), told.join(", ")))
}

fn listings<R: Rules>(machine: &PrefillMachine<R>) -> String {
    let said = |revoked| if revoked { "revoked" } else { "listed" };
    let listings = machine.evidence().listings.values();
    let heard: Vec<String> =
        listings.map(|listing| format!("{} {}", listing.leg, said(listing.revoked))).collect();
    heard.join(", ")
}
