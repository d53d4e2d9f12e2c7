//! The rules that a decision follows, apart from the mechanics. The only implementation here is the one that ships; a checker's mutants
//! override one method each, to show that the rule matters.

use crate::decode::evidence::{Grant, MetadataRow};
use crate::decode::phase::Tenant;
use crate::ids::{Leg, SlotIndex};
use crate::poll::KvPoll;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;

/// One step of the order of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// New requests take slots; verdicts are kept until their forwards are agreed to have retired.
    Record,
    /// Tokens of forwards that every rank has retired are accepted.
    Retire,
    /// Copies that every rank has made are over; requests whose copies have come back run.
    Copy,
    /// Aborted requests end.
    Abort,
    /// Agreed polls move requests on.
    Poll,
    /// Pages that nothing can touch any more are freed.
    Release,
    /// Running requests take the page of their next launch; victims are chosen.
    Grow,
    /// Requests that gave their pages up take pages again.
    Resume,
    /// New requests take pages.
    Admit,
    /// The next plan is made.
    Compose,
}

/// Finish before abort before failure; grow before resume before admit: the other orders trap or starve a request.
pub const ORDER: [Work; 10] = [
    Work::Record,
    Work::Retire,
    Work::Copy,
    Work::Abort,
    Work::Poll,
    Work::Release,
    Work::Grow,
    Work::Resume,
    Work::Admit,
    Work::Compose,
];

/// What admission and resume are told about the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// A running request lacks a page.
    pub growth_lacks: bool,
    /// A request that gave its pages up has not resumed.
    pub retracted_waits: bool,
}

/// The rules of the decode group.
pub trait Rules: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// The order of work in one decision.
    fn order() -> &'static [Work] {
        &ORDER
    }

    /// Whether a vote in the devices' queue goes ahead of the launch that it goes with: [`crate::role::Role::votes_first`].
    fn votes_first() -> bool {
        true
    }

    /// Who gives its pages up: the youngest by acceptance. `candidates` is not empty and oldest first. (The fewest generated tokens
    /// starve: a victim transfers slowly, is overtaken, and is again the fewest.)
    fn victim(candidates: &[(SlotIndex, &Tenant)]) -> Option<SlotIndex> {
        candidates.last().map(|(slot, _)| *slot)
    }

    /// Whether the only running request may be its own victim.
    fn retracts_alone() -> bool {
        false
    }

    /// Whether pages that are being given up count, before a victim is chosen.
    fn counts_promised() -> bool {
        true
    }

    /// Whether the first request that lacks pages to start stops those behind it.
    fn first_misfit_stops() -> bool {
        true
    }

    /// Whether a retracted request may start its next transfer, by the agreed poll of that attempt; none if the vote was not about it.
    fn may_start_again(poll: Option<KvPoll>) -> bool {
        poll == Some(KvPoll::WaitingForInput)
    }

    /// Whether retracted requests may take pages in this round.
    fn may_resume(pressure: Pressure) -> bool {
        !pressure.growth_lacks
    }

    /// Whether new requests may take pages in this round.
    fn may_admit(pressure: Pressure) -> bool {
        !pressure.growth_lacks && !pressure.retracted_waits
    }

    /// Whether a transfer brings the token that follows what it computed. It always does where prefill computes prompt and output so far,
    /// so that each retraction costs time and never progress; a copy that comes back brings none.
    fn transfer_brings_token(_generated: u32) -> bool {
        true
    }

    /// Positions whose KV goes to the hosts with a victim of which `flying` forwards are in flight: what those write too.
    fn positions_to_store(tenant: &Tenant, flying: u32) -> u32 {
        tenant.next_position(flying)
    }

    /// Whether a request runs whose pages come from the hosts, given whether one has not come on every rank.
    fn restored(loading: bool) -> bool {
        !loading
    }

    /// Positions that a copy which comes back takes pages for: those of the first launch too.
    fn positions_to_restore(tenant: &Tenant) -> u32 {
        tenant.next_position(0) + 1
    }

    /// Positions that a starting transfer takes pages for: those of the first launch too.
    fn positions_to_start(tenant: &Tenant) -> u32 {
        tenant.positions_to_start()
    }

    /// Whether one more launch of a request is wanted.
    fn wants_launch(tenant: &Tenant, flying: u32) -> bool {
        tenant.wants_launch(flying)
    }

    /// Whether a released slot's pages go back to the pool.
    fn returns_pages() -> bool {
        true
    }

    /// Whether pages may be freed, with `flying` forwards that name them in flight and, if `copying`, copies to or from the hosts.
    fn releasable(flying: u32, drained: bool, copying: bool) -> bool {
        flying == 0 && drained && !copying
    }

    /// Whether a request may be in a plan, given whether every rank's fence of its transfer is done: a peer that writes again would
    /// write over what the forward writes.
    fn may_launch(drained: bool) -> bool {
        drained
    }

    /// Whether no effect of this rank that touches a slot's pages is outstanding: false from the decision to publish the pages until
    /// the publish is cancelled or the writer is fenced.
    fn drained(grant: Grant) -> bool {
        matches!(grant, Grant::None)
    }

    /// What a metadata row that came for `leg` says instead of success, if anything is wrong with it.
    fn row_failure(row: &MetadataRow, leg: Leg) -> Option<KvPoll> {
        if row.echo != leg {
            return Some(KvPoll::WrongLeg);
        }
        (!row.sound).then_some(KvPoll::Corrupt)
    }

    /// Whether a handshake or a transfer has waited too long.
    fn late(age_ticks: u32, deadline_ticks: u32) -> bool {
        age_ticks >= deadline_ticks
    }

    /// Whether an element sampled in the voted state is applied to a slot whose occupant, attempt or phase has changed since.
    fn applies_stale() -> bool {
        false
    }

    /// Whether facts of another leg than the slot's current one are taken.
    fn takes_late_facts() -> bool {
        false
    }

    /// Slots that may run, oldest first.
    fn plan_order(slots: Vec<SlotIndex>) -> Vec<SlotIndex> {
        slots
    }
}

/// The rules that ship.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shipped;

impl Rules for Shipped {}
