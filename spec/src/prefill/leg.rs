//! A leg as the prefill group knows it: one attempt of the decode group to have a prompt's KV computed and written.
//!
//! ```text
//! Waiting ─listed on every rank, pages─▶ Running ─last chunk retired─▶ Inflight ─written on every rank─▶ Draining ─▶ the slot is free
//! Waiting, Running, Inflight ─failed or revoked on some rank─▶ Draining
//! ```

use crate::agreed::Words;
use crate::brief::Arrival;
use crate::counters::{Counter, Counters, visit_peer};
use crate::ids::{Attempt, BlockKey, Epoch, Generation, Leg, PageId, RequestId, SlotIndex};
use crate::poll::Reason;
use crate::table::Occupant;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A leg to compute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PrefillLeg {
    /// The leg's place in acceptance order.
    pub id: RequestId,
    /// The leg, as the decode group names it.
    pub leg: Leg,
    /// Tokens to compute: the prompt and the output so far.
    pub tokens: u32,
    /// Keys of its leading full pages, in the order of positions; as many as are looked up and kept.
    pub keys: Vec<BlockKey>,
}

impl Arrival for PrefillLeg {
    fn words(&self) -> usize {
        6 + 2 * self.keys.len()
    }

    fn encode(&self, words: &mut Words) {
        let Leg { epoch, slot, generation, attempt } = self.leg;
        words.extend([
            self.id.0,
            epoch.0,
            u64::from(slot.0),
            generation.0,
            attempt.0,
            u64::from(self.tokens),
        ]);
        words.extend(self.keys.iter().flat_map(|key| key.0));
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let (&[id, epoch, slot, generation, attempt, tokens], keys) = words.split_first_chunk()?;
        let (keys, []) = keys.as_chunks() else { return None };
        let leg = Leg {
            epoch: Epoch(epoch),
            slot: SlotIndex(u32::try_from(slot).ok()?),
            generation: Generation(generation),
            attempt: Attempt(attempt),
        };
        let keys = keys.iter().map(|key| BlockKey(*key)).collect();
        Some(Self { id: RequestId(id), leg, tokens: u32::try_from(tokens).ok()?, keys })
    }
}

impl Counters for PrefillLeg {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Request, &mut self.id.0);
        visit_peer(&mut self.leg, visit);
    }
}

/// How a leg ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LegOutcome {
    /// Its KV and its row are written on every rank.
    Written,
    /// It failed.
    Failed(Reason),
}

/// Where a leg is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LegPhase {
    /// It waits for its page list on every rank, and for pages here.
    Waiting,
    /// Its tokens are being computed, a chunk a forward.
    Running,
    /// Its KV is being written to the decode side.
    Inflight,
    /// It ended; its pages wait until no forward and no write touches them.
    Draining(LegOutcome),
}

/// A leg in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LegTenant {
    /// The leg.
    pub arrival: PrefillLeg,
    /// Where it is.
    pub phase: LegPhase,
    /// Its pages, in the order of positions.
    pub pages: Vec<PageId>,
    /// Tokens that have been in a plan, or were computed for another leg.
    pub launched: u32,
}

impl LegTenant {
    /// A leg that has just taken a slot.
    #[must_use]
    pub fn new(arrival: PrefillLeg) -> Self {
        Self { arrival, phase: LegPhase::Waiting, pages: Vec::new(), launched: 0 }
    }
}

impl Occupant for LegTenant {
    fn request(&self) -> RequestId {
        self.arrival.id
    }

    fn pages(&self) -> &[PageId] {
        &self.pages
    }
}

impl Counters for LegTenant {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.arrival.visit(visit);
    }
}
