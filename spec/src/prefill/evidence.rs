//! What one prefill rank saw: which legs its decode peer has listed, and how far its writes are.

use crate::configuration::GroupConfiguration;
use crate::counters::{Counter, Counters, visit_peer};
use crate::ids::Leg;
use crate::ids::SlotIndex;
use crate::poll::KvPoll;
use crate::prefill::leg::{LegPhase, LegTenant};
use crate::prefill::rules::Rules;
use crate::table::{Slot, State};
use crate::vote::SlotVote;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// What reaches one prefill rank about a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WriteFact {
    /// The leg's page list and its tokens are here.
    Listed,
    /// The decode side gave the leg up.
    Revoked,
    /// All writes that this rank posted for the leg have completed.
    Written,
    /// A write of the leg failed, and none is outstanding.
    WriteFailed,
}

/// What the decode peer last said of one of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Listing {
    /// The leg.
    pub leg: Leg,
    /// Whether it was given up.
    pub revoked: bool,
}

/// How far this rank's writes of a slot's leg are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Writes {
    /// None was posted.
    None,
    /// Posted.
    Outstanding,
    /// Completed.
    Done,
    /// Failed; none is outstanding.
    Failed,
}

/// What one rank saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// By slot of the decode group: its latest leg.
    pub listings: BTreeMap<SlotIndex, Listing>,
    /// By slot of this group.
    pub writes: Vec<Writes>,
    /// By slot of this group: ticks that its leg has waited for its list or its writes, up to the deadline.
    pub age_ticks: Vec<u32>,
}

impl Evidence {
    pub(crate) fn new(configuration: &GroupConfiguration) -> Self {
        Self {
            listings: BTreeMap::new(),
            writes: vec![Writes::None; configuration.slots as usize],
            age_ticks: vec![0; configuration.slots as usize],
        }
    }

    /// Whether a leg is listed here and still wanted.
    #[must_use]
    pub fn listed(&self, leg: Leg) -> bool {
        self.listings.get(&leg.slot) == Some(&Listing { leg, revoked: false })
    }

    /// Whether a leg is known to be unwanted: revoked, or overtaken by a later leg of its slot.
    #[must_use]
    pub fn unwanted(&self, leg: Leg) -> bool {
        self.listings
            .get(&leg.slot)
            .is_some_and(|listing| listing.leg > leg || (listing.leg == leg && listing.revoked))
    }

    pub(crate) fn absorb(&mut self, state: &State<LegTenant>, leg: Leg, fact: WriteFact) {
        match fact {
            WriteFact::Listed => self.list(Listing { leg, revoked: false }),
            WriteFact::Revoked => self.list(Listing { leg, revoked: true }),
            WriteFact::Written => self.complete(state, leg, Writes::Done),
            WriteFact::WriteFailed => self.complete(state, leg, Writes::Failed),
        }
    }

    /// A later leg of a slot replaces an earlier one; a revocation is final.
    fn list(&mut self, listing: Listing) {
        let kept = self.listings.entry(listing.leg.slot).or_insert(listing);
        if listing.leg > kept.leg {
            *kept = listing;
        } else if listing.leg == kept.leg {
            kept.revoked |= listing.revoked;
        }
    }

    fn complete(&mut self, state: &State<LegTenant>, leg: Leg, to: Writes) {
        let current = state
            .enumerate()
            .find(|(_, slot)| slot.occupant.as_ref().is_some_and(|tenant| tenant.arrival.leg == leg));
        if let Some((index, _)) = current
            && let Some(writes) = self.writes.get_mut(index.index())
            && *writes == Writes::Outstanding
        {
            *writes = to;
        }
    }

    pub(crate) fn tick(&mut self, configuration: &GroupConfiguration, state: &State<LegTenant>) {
        for ((age, slot), writes) in self.age_ticks.iter_mut().zip(&state.slots).zip(&self.writes) {
            let waits = slot.occupant.as_ref().is_some_and(|tenant| match tenant.phase {
                LegPhase::Waiting => true,
                LegPhase::Inflight => *writes == Writes::Outstanding,
                LegPhase::Running | LegPhase::Draining(_) => false,
            });
            if waits && *age < configuration.deadline_ticks {
                *age += 1;
            }
        }
    }

    /// This rank's vote on a slot.
    pub(crate) fn sample<R: Rules>(
        &self,
        configuration: &GroupConfiguration,
        slot: &Slot<LegTenant>,
        index: SlotIndex,
    ) -> SlotVote {
        let writes = self.writes.get(index.index()).copied().unwrap_or(Writes::None);
        let age = self.age_ticks.get(index.index()).copied().unwrap_or(0);
        let late = R::late(age, configuration.deadline_ticks);
        let drained = R::drained(writes);
        match &slot.occupant {
            None => SlotVote { drained, ..SlotVote::NEUTRAL },
            Some(tenant) => SlotVote { poll: self.poll(tenant, writes, late), first_token: None, drained },
        }
    }

    fn poll(&self, tenant: &LegTenant, writes: Writes, late: bool) -> KvPoll {
        let leg = tenant.arrival.leg;
        match tenant.phase {
            LegPhase::Waiting if self.unwanted(leg) => KvPoll::Revoked,
            LegPhase::Waiting if self.listed(leg) => KvPoll::WaitingForInput,
            LegPhase::Waiting if late => KvPoll::DeadlinePassed,
            LegPhase::Waiting => KvPoll::Bootstrapping,
            LegPhase::Inflight => match writes {
                Writes::Done => KvPoll::Success,
                Writes::Failed => KvPoll::TransferFailed,
                Writes::None | Writes::Outstanding if self.unwanted(leg) => KvPoll::Revoked,
                Writes::None | Writes::Outstanding if late => KvPoll::DeadlinePassed,
                Writes::None | Writes::Outstanding => KvPoll::Transferring,
            },
            LegPhase::Running if self.unwanted(leg) => KvPoll::Revoked,
            LegPhase::Running | LegPhase::Draining(_) => KvPoll::Success,
        }
    }

    /// Notes how far a slot's writes are; its clock starts anew.
    pub(crate) fn set_writes(&mut self, slot: SlotIndex, to: Writes) {
        if let Some(writes) = self.writes.get_mut(slot.index()) {
            *writes = to;
        }
        if let Some(age) = self.age_ticks.get_mut(slot.index()) {
            *age = 0;
        }
    }

    /// Ends a leg for good: a page list that is delivered again does not bring it back. A later leg of its slot is kept.
    pub(crate) fn forget(&mut self, slot: SlotIndex, leg: Leg) {
        self.set_writes(slot, Writes::None);
        self.list(Listing { leg, revoked: true });
    }
}

impl Counters for Evidence {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.listings.values_mut().for_each(|listing| visit_peer(&mut listing.leg, visit));
    }
}
