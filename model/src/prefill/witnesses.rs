//! Situations that an exploration of the prefill group must reach, or it proved nothing about them.

use crate::model::{Witness, WorldModel};
use crate::prefill::Surroundings;
use crate::prefill::peer::Said;
use crate::prefill::setting::PrefillSetting;
use crate::world::World;
use lockstep_spec::host::Direction;
use lockstep_spec::poll::Reason;
use lockstep_spec::prefill::leg::{LegOutcome, LegPhase, LegTenant};
use lockstep_spec::prefill::rules::Rules;
use lockstep_spec::table::State;

/// The witnesses that make sense under a setting.
#[must_use]
pub fn witnesses<R: Rules>(setting: &PrefillSetting) -> Vec<Witness<Surroundings<R>>> {
    let mut witnesses: Vec<Witness<Surroundings<R>>> =
        vec![("a forward runs", forward_runs), ("full table", full_table)];
    witnesses.extend(with_two_legs(setting));
    if setting.revocations {
        witnesses.push(("a leg is revoked while waiting", revoked_waiting));
        witnesses.push(("a leg is revoked while its KV is written", revoked_inflight));
    }
    // A lone rank's failed leg is gone before the round ends.
    if setting.write_failures && setting.configuration.ranks > 1 {
        witnesses.push(("a write failed", write_failed));
    }
    if setting.prompts.iter().any(|prompt| prompt.tokens > setting.configuration.chunk_tokens) {
        witnesses.push(("a leg is between two chunks", between_chunks));
        if setting.revocations {
            witnesses.push(("a leg is revoked between two chunks", revoked_between_chunks));
        }
    }
    witnesses.extend(with_kept_pages(setting));
    if setting.pause {
        witnesses.push(("paused with a leg that could run", paused));
    }
    witnesses
}

fn with_two_legs<R: Rules>(setting: &PrefillSetting) -> Vec<Witness<Surroundings<R>>> {
    let mut witnesses: Vec<Witness<Surroundings<R>>> = Vec::new();
    if setting.configuration.slots < 2 || setting.decode_slots < 2 {
        return witnesses;
    }
    // The leader briefs a leg once its own list is here, so that a lone rank never waits for one.
    if setting.configuration.ranks > 1 {
        witnesses.push(("a leg waits for its page list while another is listed", lacks_list));
    }
    let configuration = &setting.configuration;
    let two_pages = |tokens: u32| 2 * configuration.pages_for(tokens);
    let fit = |tokens: Option<u32>| {
        tokens.map(two_pages).is_some_and(|pages| pages <= configuration.pages as usize)
    };
    let lengths = || setting.prompts.iter().map(|prompt| prompt.tokens);
    if fit(lengths().min()) && configuration.chunk_tokens > 1 {
        witnesses.push(("two legs in one plan", two_in_one_plan));
    }
    if fit(lengths().min()) && setting.configuration.flights > 1 {
        witnesses.push(("two forwards in flight", two_flights));
    }
    if !fit(lengths().max()) {
        witnesses.push(("a leg waits for pages while another runs", lacks_pages));
    }
    witnesses
}

fn with_kept_pages<R: Rules>(setting: &PrefillSetting) -> Vec<Witness<Surroundings<R>>> {
    let mut witnesses: Vec<Witness<Surroundings<R>>> = Vec::new();
    let configuration = &setting.configuration;
    if configuration.prefix_pages == 0 {
        return witnesses;
    }
    witnesses.push(("a leg runs on pages that were kept", runs_on_kept));
    if configuration.slots > 1 {
        witnesses.push(("two legs hold the same page", two_hold_one));
    }
    if configuration.host_pages > 0 {
        witnesses.push(("a page is kept on the hosts alone", on_the_hosts_alone));
        witnesses.push(("a leg waits for a page that comes back from the hosts", waits_for_load));
        if configuration.ranks > 1 {
            witnesses.push(("a copy is complete on one rank and not on another", copied_apart));
        }
        if setting.revocations {
            witnesses.push(("a page comes back that no leg holds any more", loads_for_nobody));
        }
    }
    witnesses
}

type Model<R> = WorldModel<Surroundings<R>>;
type Group<R> = World<Surroundings<R>>;

fn between_chunks<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let partly =
        |tenant: &LegTenant| tenant.phase == LegPhase::Running && tenant.launched < tenant.arrival.tokens;
    !state(world).by_age(partly).is_empty()
}

fn runs_on_kept<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let queue = &state(world).flights.queue;
    queue.iter().flat_map(|flight| &flight.rows).any(|row| {
        let kept = row.pages.first().is_some_and(|page| state(world).cache.pages().any(|kept| kept == *page));
        row.position > 0 && kept
    })
}

fn two_hold_one<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let holders = |page| tenants(world).filter(|tenant| tenant.pages.contains(&page)).count();
    state(world).cache.pages().any(|page| holders(page) > 1)
}

fn on_the_hosts_alone<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).cache.blocks().iter().any(|block| block.page.is_none())
}

fn waits_for_load<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let waits =
        |tenant: &LegTenant| tenant.phase == LegPhase::Running && state(world).host.loading(&tenant.pages);
    tenants(world).any(waits)
}

fn copied_apart<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let mut next = world.group.ranks.iter().map(|rank| rank.next_copy().map(|copy| copy.id));
    let first = next.next();
    next.any(|copy| Some(copy) != first)
}

fn loads_for_nobody<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let copies = state(world).host.copies().iter();
    copies
        .filter(|copy| copy.direction == Direction::Load)
        .any(|copy| !state(world).held().contains(&copy.page))
}

fn revoked_between_chunks<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let partly = |tenant: &LegTenant| {
        matches!(tenant.phase, LegPhase::Draining(_)) && (1..tenant.arrival.tokens).contains(&tenant.launched)
    };
    !state(world).by_age(partly).is_empty()
}

fn paused<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).paused && !state(world).by_age(|tenant| tenant.phase == LegPhase::Waiting).is_empty()
}

fn state<R: Rules>(world: &Group<R>) -> &State<LegTenant> {
    world.group.ranks[0].state().value()
}

fn tenants<R: Rules>(world: &Group<R>) -> impl Iterator<Item = &LegTenant> {
    state(world).slots.iter().filter_map(|slot| slot.occupant.as_ref())
}

fn in_phase<R: Rules>(world: &Group<R>, phase: LegPhase) -> bool {
    tenants(world).any(|tenant| tenant.phase == phase)
}

fn forward_runs<R: Rules>(model: &Model<R>, world: &Group<R>) -> bool {
    (0..model.setting.configuration.ranks as usize).all(|rank| !world.group.device.queue(rank).is_empty())
}

fn two_in_one_plan<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).flights.queue.iter().any(|flight| flight.rows.len() > 1)
}

fn two_flights<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).flights.queue.len() > 1
}

fn full_table<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    state(world).free_slots() == 0
}

/// It is listed everywhere, and all that is left does not hold it.
fn lacks_pages<R: Rules>(model: &Model<R>, world: &Group<R>) -> bool {
    let free = state(world).pool.len();
    let listed = |tenant: &LegTenant| {
        let leg = tenant.arrival.leg;
        world.environment.decode[leg.slot.index()].listed(leg)
    };
    let lacks = tenants(world).any(|tenant| {
        let needs = model.setting.configuration.pages_for(tenant.arrival.tokens);
        tenant.phase == LegPhase::Waiting && needs > free && listed(tenant)
    });
    lacks && in_phase(world, LegPhase::Running)
}

/// Both are in the table; some rank's peer has not listed the one.
fn lacks_list<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let unlisted = |tenant: &LegTenant| {
        let mut orders = world.environment.decode.iter().filter_map(|decode| decode.current.as_ref());
        orders.any(|order| order.leg == tenant.arrival.leg && order.said.contains(&Said::Nothing))
    };
    let waiting = || tenants(world).filter(|tenant| tenant.phase == LegPhase::Waiting);
    waiting().any(unlisted) && waiting().any(|tenant| !unlisted(tenant))
}

const REVOKED: LegPhase = LegPhase::Draining(LegOutcome::Failed(Reason::Revoked));

/// A waiting leg is released in the round that ends it, so it is seen in the vote before.
fn revoked_waiting<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let unwanted = |tenant: &LegTenant| {
        world.group.ranks.iter().any(|rank| rank.evidence().unwanted(tenant.arrival.leg))
    };
    tenants(world).any(|tenant| tenant.phase == LegPhase::Waiting && unwanted(tenant))
}

/// It drains, and some rank's write still reads its pages.
fn revoked_inflight<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    let writes = || world.environment.writes.iter().flatten();
    tenants(world)
        .any(|tenant| tenant.phase == REVOKED && writes().any(|write| write.leg == tenant.arrival.leg))
}

fn write_failed<R: Rules>(_: &Model<R>, world: &Group<R>) -> bool {
    in_phase(world, LegPhase::Draining(LegOutcome::Failed(Reason::TransferFailed)))
}
