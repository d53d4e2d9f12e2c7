//! The states seen so far, by fingerprint, and the new ones of the block being expanded.
//!
//! Workers *claim* successors at once; between blocks the new ones are *settled*: put in order and given ids. A
//! state claimed twice keeps the smaller origin, so that the order is that of a search on one thread. Shards have a
//! lock each and grow alone, so that growth never needs twice the memory of the whole.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use super::snapshot::{Store, load_each, store_all, unfit};

const SHARD_BITS: u32 = 8;
const FIRST_SLOTS: usize = 16;
const EMPTY: u128 = 0;
const SLOT_BYTES: usize = size_of::<u128>() + size_of::<u32>();
/// Set in a table entry that is an index into the shard's new states; ids stay below.
const NEW: u32 = 1 << 31;

/// Where a state was reached from: the parent's id and the index of the action; ordered as the search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// Id of the state it was reached from.
    pub(crate) parent: u32,
    /// Index of the action that reached it.
    pub(crate) action: u32,
}

/// A state as known to the worker that reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It has this id.
    Known(u32),
    /// It is new in this block; [`Settled::id_of`] will know its id.
    New {
        /// Shard it is in.
        shard: u32,
        /// Its index among the new states there.
        index: u32,
    },
}

/// Set of fingerprints with the ids of their states.
pub(crate) struct Seen<S> {
    shards: Vec<Mutex<Shard<S>>>,
}

/// The new states of a block in the order of their origins, with consecutive ids.
pub(crate) struct Settled<S> {
    /// The states.
    pub(crate) states: Vec<(Origin, S)>,
    ids: Vec<Vec<u32>>,
}

impl<S> Settled<S> {
    /// The id behind a claim made in the block.
    pub(crate) fn id_of(&self, claim: Claim) -> u32 {
        match claim {
            Claim::Known(id) => id,
            Claim::New { shard, index } => self.ids[shard as usize][index as usize],
        }
    }
}

impl<S> Seen<S> {
    /// An empty set.
    pub(crate) fn new() -> Self {
        Self { shards: (0..1 << SHARD_BITS).map(|_| Mutex::new(Shard::new())).collect() }
    }

    /// Bytes that shards about to be full will soon take at once.
    pub(crate) fn growth(&self) -> u64 {
        self.shards.iter().map(|shard| relock(shard.lock()).growth()).sum()
    }

    /// Looks a state up, and takes it in if it is new.
    pub(crate) fn claim(&self, fingerprint: u128, origin: Origin, state: S) -> Claim {
        let number = shard_of(fingerprint);
        let entry = relock(self.shards[number as usize].lock()).claim(fingerprint, origin, state);
        if entry < NEW { Claim::Known(entry) } else { Claim::New { shard: number, index: entry - NEW } }
    }

    /// The id of the state with this fingerprint, if it is settled.
    pub(crate) fn id_of(&self, fingerprint: u128) -> Option<u32> {
        let shard = relock(self.shards[shard_of(fingerprint) as usize].lock());
        let slot = slot_in(&shard.fingerprints, fingerprint);
        (shard.fingerprints[slot] == fingerprint).then_some(shard.entries[slot]).filter(|id| *id < NEW)
    }

    /// What [`Store::store`] wrote of a search that knows so many states.
    pub(crate) fn load(input: &mut dyn Read, known: u32) -> io::Result<Self> {
        let mut seen = Self::new();
        let mut taken = 0u32;
        load_each(input, &mut |(fingerprint, id): (u128, u32)| {
            let shard = relock(seen.shards[shard_of(fingerprint) as usize].get_mut());
            let sound = fingerprint != EMPTY && id < known && taken < known;
            if !sound || !shard.restore(fingerprint, id) {
                return Err(unfit("its set of states is not one"));
            }
            taken += 1;
            Ok(())
        })?;
        if taken == known { Ok(seen) } else { Err(unfit("its set of states is not whole")) }
    }

    /// Gives the new states the ids from `first` on; `None` when there are not enough ids.
    pub(crate) fn settle(&mut self, first: u32) -> Option<Settled<S>> {
        let mut shards: Vec<&mut Shard<S>> =
            self.shards.iter_mut().map(|shard| relock(shard.get_mut())).collect();
        let mut order = Vec::new();
        for (number, shard) in shards.iter().enumerate() {
            order.extend(shard.fresh.iter().enumerate().map(|(index, fresh)| (fresh.origin, number, index)));
        }
        order.sort_unstable();
        let ids = first..first.checked_add(u32::try_from(order.len()).ok()?).filter(|end| *end < NEW)?;
        let mut settled = Settled {
            states: Vec::with_capacity(order.len()),
            ids: shards.iter().map(|shard| vec![0; shard.fresh.len()]).collect(),
        };
        for (id, (origin, number, index)) in ids.zip(order) {
            settled.ids[number][index] = id;
            settled.states.extend(shards[number].settle(index, id).map(|state| (origin, state)));
        }
        shards.iter_mut().for_each(|shard| shard.fresh.clear());
        Some(settled)
    }
}

/// Between blocks, when all states are settled.
impl<S> Store for Seen<S> {
    fn store(&self, out: &mut dyn Write) -> io::Result<()> {
        let shards: Vec<_> = self.shards.iter().map(|shard| relock(shard.lock())).collect();
        let all = shards.iter().flat_map(|shard| shard.settled());
        store_all(out, shards.iter().map(|shard| shard.used).sum(), all)
    }
}

/// A claim leaves the shard whole even if it runs out of memory half-way, so a poisoned lock is taken as it is.
fn relock<T>(locked: Result<T, PoisonError<T>>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

struct Shard<S> {
    fingerprints: Vec<u128>,
    entries: Vec<u32>,
    used: usize,
    fresh: Vec<Fresh<S>>,
}

struct Fresh<S> {
    origin: Origin,
    slot: usize,
    state: Option<S>,
}

impl<S> Shard<S> {
    fn new() -> Self {
        Self {
            fingerprints: vec![EMPTY; FIRST_SLOTS],
            entries: vec![0; FIRST_SLOTS],
            used: 0,
            fresh: Vec::new(),
        }
    }

    fn claim(&mut self, fingerprint: u128, origin: Origin, state: S) -> u32 {
        let slot = slot_in(&self.fingerprints, fingerprint);
        if self.fingerprints[slot] == EMPTY {
            return self.take_in(fingerprint, origin, state);
        }
        let entry = self.entries[slot];
        if let Some(fresh) = entry.checked_sub(NEW).and_then(|index| self.fresh.get_mut(index as usize)) {
            fresh.origin = fresh.origin.min(origin);
        }
        entry
    }

    fn take_in(&mut self, fingerprint: u128, origin: Origin, state: S) -> u32 {
        let entry = NEW + u32::try_from(self.fresh.len()).unwrap_or(NEW - 1);
        let slot = self.insert(fingerprint, entry);
        self.fresh.push(Fresh { origin, slot, state: Some(state) });
        entry
    }

    /// Puts in what is not there yet; the slot.
    fn insert(&mut self, fingerprint: u128, entry: u32) -> usize {
        if self.used * 4 >= self.fingerprints.len() * 3 {
            self.grow();
        }
        let slot = slot_in(&self.fingerprints, fingerprint);
        self.fingerprints[slot] = fingerprint;
        self.entries[slot] = entry;
        self.used += 1;
        slot
    }

    /// Puts a settled state in; whether it was not there.
    fn restore(&mut self, fingerprint: u128, id: u32) -> bool {
        let is_new = self.fingerprints[slot_in(&self.fingerprints, fingerprint)] == EMPTY;
        if is_new {
            self.insert(fingerprint, id);
        }
        is_new
    }

    fn settled(&self) -> impl Iterator<Item = (u128, u32)> {
        let entries = self.fingerprints.iter().copied().zip(self.entries.iter().copied());
        entries.filter(|(fingerprint, _)| *fingerprint != EMPTY)
    }

    fn settle(&mut self, index: usize, id: u32) -> Option<S> {
        let fresh = &mut self.fresh[index];
        self.entries[fresh.slot] = id;
        fresh.state.take()
    }

    /// Bytes that it takes on growing, if that is near.
    fn growth(&self) -> u64 {
        let near = self.used * 3 >= self.fingerprints.len() * 2;
        if near { 2 * (self.fingerprints.len() * SLOT_BYTES) as u64 } else { 0 }
    }

    fn grow(&mut self) {
        let slots = self.fingerprints.len() * 2;
        let fingerprints = std::mem::replace(&mut self.fingerprints, vec![EMPTY; slots]);
        let entries = std::mem::replace(&mut self.entries, vec![0; slots]);
        for (fingerprint, entry) in fingerprints.into_iter().zip(entries).filter(|(print, _)| *print != EMPTY)
        {
            let slot = slot_in(&self.fingerprints, fingerprint);
            self.fingerprints[slot] = fingerprint;
            self.entries[slot] = entry;
            if let Some(fresh) = entry.checked_sub(NEW).and_then(|index| self.fresh.get_mut(index as usize)) {
                fresh.slot = slot;
            }
        }
    }
}

/// The slot that holds `fingerprint`, or the empty one where it belongs.
fn slot_in(fingerprints: &[u128], fingerprint: u128) -> usize {
    let mask = fingerprints.len() - 1;
    let mut slot = low_word(fingerprint) & mask;
    while fingerprints[slot] != fingerprint && fingerprints[slot] != EMPTY {
        slot = (slot + 1) & mask;
    }
    slot
}

const fn shard_of(fingerprint: u128) -> u32 {
    (fingerprint >> (u128::BITS - SHARD_BITS)) as u32
}

const fn low_word(fingerprint: u128) -> usize {
    fingerprint as usize
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint::fingerprint;
    use super::*;

    const fn from(parent: u32) -> Origin {
        Origin { parent, action: 0 }
    }

    #[test]
    fn seen_settles_in_the_order_of_origins_through_growth() {
        let mut seen = Seen::new();
        for number in (0..20_000u32).rev() {
            seen.claim(fingerprint(&number), from(number + 1), number);
        }
        let late = seen.claim(fingerprint(&7u32), from(0), 7);
        let settled = seen.settle(100).unwrap();
        assert_eq!(settled.id_of(late), 100);
        let expected = std::iter::once(7).chain((0..20_000).filter(|number| *number != 7));
        assert!(settled.states.iter().map(|(_, number)| *number).eq(expected));
        let known = seen.claim(fingerprint(&19_999u32), from(0), 19_999);
        assert_eq!(known, Claim::Known(20_099));
        assert!(seen.settle(20_100).unwrap().states.is_empty());
    }

    #[test]
    fn seen_probes_past_a_taken_slot() {
        let mut seen = Seen::new();
        let clash = 1u128 << 64;
        seen.claim(7, from(0), 'a');
        seen.claim(7 + clash, from(1), 'b');
        seen.settle(0).unwrap();
        assert_eq!(seen.claim(7, from(2), 'a'), Claim::Known(0));
        assert_eq!(seen.claim(7 + clash, from(2), 'b'), Claim::Known(1));
    }

    #[test]
    fn seen_refuses_to_run_out_of_ids() {
        let mut seen = Seen::new();
        seen.claim(1, from(0), ());
        assert!(seen.settle(NEW - 1).is_none());
    }
}
