//! The agreed state of a group: a fixed table of slots, a pool of pages, and the forwards in flight. Every rank holds the same value; the
//! two roles differ in what occupies a slot.

use crate::brief::Verdicts;
use crate::cache::PrefixCache;
use crate::configuration::{GroupConfiguration, MAX_FLIGHTS};
use crate::counters::{Counter, Counters};
use crate::digest::Digest;
use crate::fault::Fault;
use crate::host::HostMemory;
use crate::ids::{Attempt, Epoch, ForwardId, Generation, HostPageId, Leg, PageId, RequestId, SlotIndex};
use crate::why::Why;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;

/// What a role puts into a slot.
pub trait Occupant: Clone + Eq + Hash + fmt::Debug + Counters + Send + Sync + 'static {
    /// The request; ids grow in acceptance order, so the lowest is the oldest.
    fn request(&self) -> RequestId;

    /// The pages it holds.
    fn pages(&self) -> &[PageId];

    /// The hosts' pages it holds.
    fn host_pages(&self) -> &[HostPageId] {
        &[]
    }
}

/// One slot of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot<O> {
    /// Which occupant: counts up with each new one, and stays when it leaves.
    pub generation: Generation,
    /// Which handshake of that occupant.
    pub attempt: Attempt,
    /// The occupant, if any.
    pub occupant: Option<O>,
}

/// One request's part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The request's slot.
    pub slot: SlotIndex,
    /// Position of the first input token.
    pub position: u32,
    /// Number of input tokens: 1 on the decode side, the prompt on the prefill side.
    pub tokens: u32,
    /// The pages that hold positions 0 to `position + tokens - 1`, in order.
    pub pages: Vec<PageId>,
}

/// A forward that was launched and is not agreed to have retired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    /// Its number.
    pub id: ForwardId,
    /// Its plan, oldest request first.
    pub rows: Vec<Row>,
}

impl Flight {
    /// Token positions of the plan: the shape of the forward.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.rows.iter().map(|row| u64::from(row.tokens)).sum()
    }
}

impl Counters for Flight {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Forward, &mut self.id.0);
    }
}

/// The forwards in flight, oldest first, and the verdicts briefed ahead of the agreed retired count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flights {
    /// The next forward's number.
    pub next: ForwardId,
    /// In flight, oldest first.
    pub queue: Vec<Flight>,
    /// Verdicts for the first flights of the queue.
    pub pending: Vec<Verdicts>,
}

impl Flights {
    /// Flights whose plan names `slot`.
    #[must_use]
    pub fn naming(&self, slot: SlotIndex) -> u32 {
        let naming =
            self.queue.iter().filter(|flight| flight.rows.iter().any(|row| row.slot == slot)).count();
        u32::try_from(naming.min(MAX_FLIGHTS)).unwrap_or_default()
    }

    /// Keeps verdicts for the next forwards that have none.
    pub(crate) fn judge(&mut self, verdicts: &[Verdicts]) -> Result<(), Fault> {
        self.pending.extend(verdicts.iter().cloned());
        let matching =
            self.pending.iter().zip(&self.queue).all(|(rows, flight)| rows.len() == flight.rows.len());
        if self.pending.len() > self.queue.len() || !matching {
            return Err(Fault::BadBrief("verdicts for other forwards than those in flight"));
        }
        Ok(())
    }

    /// Takes out the oldest forward, with its verdicts.
    pub(crate) fn retire(&mut self) -> Result<(Flight, Verdicts), Fault> {
        if self.queue.is_empty() {
            return Err(Fault::UnexpectedRetirement(self.next));
        }
        let flight = self.queue.remove(0);
        if self.pending.is_empty() {
            return Err(Fault::VerdictsMissing(flight.id));
        }
        Ok((flight, self.pending.remove(0)))
    }

    /// Launches a plan.
    pub fn launch(&mut self, rows: Vec<Row>) -> Flight {
        let flight = Flight { id: self.next, rows };
        self.next.0 += 1;
        self.queue.push(flight.clone());
        flight
    }
}

/// The free pages. Deterministic: the lowest ids go first, so every rank takes the same ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PagePool<P = PageId> {
    /// Free pages, highest first.
    free: Vec<P>,
}

impl<P: Copy + Ord> PagePool<P> {
    /// A pool of these pages, in ascending order, all free.
    #[must_use]
    pub fn new(pages: impl DoubleEndedIterator<Item = P>) -> Self {
        Self { free: pages.rev().collect() }
    }

    /// Number of free pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.free.len()
    }

    /// Whether no page is free.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// The free pages.
    #[must_use]
    pub fn free(&self) -> &[P] {
        &self.free
    }

    /// Takes the `count` lowest free pages, or none if there are fewer.
    pub fn take(&mut self, count: usize) -> Option<Vec<P>> {
        let rest = self.free.len().checked_sub(count)?;
        let mut taken = self.free.split_off(rest);
        taken.reverse();
        Some(taken)
    }

    /// Gives pages back.
    pub fn give(&mut self, pages: &mut Vec<P>) {
        self.free.append(pages);
        self.free.sort_unstable_by(|left, right| right.cmp(left));
    }
}

/// Agreed state of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<O> {
    /// The table.
    pub slots: Vec<Slot<O>>,
    /// The free pages.
    pub pool: PagePool,
    /// Pages that are kept for prompts that begin alike: the prefill group's.
    pub cache: PrefixCache,
    /// The memory of the hosts.
    pub host: HostMemory,
    /// The forwards in flight.
    pub flights: Flights,
    /// Whether the group is on its way out: nothing new is taken, and it leaves once idle.
    pub closing: bool,
    /// Whether nothing is launched until the group is told to go on; all else goes on.
    pub paused: bool,
}

impl<O: Occupant> State<O> {
    /// The state of a group that has just formed: nothing but free slots and pages.
    #[must_use]
    pub fn genesis(configuration: &GroupConfiguration) -> Self {
        let empty = Slot { generation: Generation(0), attempt: Attempt(0), occupant: None };
        Self {
            slots: (0..configuration.slots).map(|_| empty.clone()).collect(),
            pool: PagePool::new((0..configuration.pages).map(PageId)),
            cache: PrefixCache::default(),
            host: HostMemory::new(configuration.host_pages),
            flights: Flights { next: ForwardId(0), queue: Vec::new(), pending: Vec::new() },
            closing: false,
            paused: false,
        }
    }

    /// Takes in what concerns the group as a whole. One that is on its way out is never paused: it has work to finish.
    pub(crate) fn direct(&mut self, shutdown: bool, pause: Option<bool>, reasons: &mut Vec<Why>) {
        if shutdown && !self.closing {
            self.closing = true;
            reasons.push(Why::Shutdown);
        }
        let paused = !self.closing && pause.unwrap_or(self.paused);
        if core::mem::replace(&mut self.paused, paused) != paused {
            reasons.push(Why::PauseChanged);
        }
    }

    /// The digest that every vote carries.
    #[must_use]
    pub fn digest(&self) -> u64 {
        Digest::of(self)
    }

    /// The slot at an index of this table.
    #[must_use]
    pub fn slot(&self, slot: SlotIndex) -> Option<&Slot<O>> {
        self.slots.get(slot.index())
    }

    /// The occupant of a slot, if the slot exists and is used.
    #[must_use]
    pub fn occupant(&self, slot: SlotIndex) -> Option<&O> {
        self.slot(slot)?.occupant.as_ref()
    }

    /// Identity of the current attempt in a slot of the decode group.
    #[must_use]
    pub fn leg(&self, epoch: Epoch, slot: SlotIndex) -> Option<Leg> {
        let Slot { generation, attempt, .. } = *self.slot(slot)?;
        Some(Leg { epoch, slot, generation, attempt })
    }

    /// Puts a new occupant into the lowest free slot.
    pub(crate) fn occupy(&mut self, occupant: O) -> Result<SlotIndex, Fault> {
        let free = self.enumerate().find(|(_, slot)| slot.occupant.is_none());
        let (index, _) = free.ok_or(Fault::BadBrief("more arrivals than free slots"))?;
        let slot = &mut self.slots[index.index()];
        slot.generation.0 += 1;
        slot.attempt = Attempt(0);
        slot.occupant = Some(occupant);
        Ok(index)
    }

    /// All slots with their indices.
    pub fn enumerate(&self) -> impl Iterator<Item = (SlotIndex, &Slot<O>)> {
        (0..).map(SlotIndex).zip(&self.slots)
    }

    /// Occupied slots for which `include` holds, oldest request first.
    pub fn by_age(&self, include: impl Fn(&O) -> bool) -> Vec<SlotIndex> {
        let mut chosen: Vec<(RequestId, SlotIndex)> = self
            .enumerate()
            .filter_map(|(index, slot)| slot.occupant.as_ref().map(|occupant| (index, occupant)))
            .filter(|(_, occupant)| include(occupant))
            .map(|(index, occupant)| (occupant.request(), index))
            .collect();
        chosen.sort_unstable();
        chosen.into_iter().map(|(_, index)| index).collect()
    }

    /// The pages that requests in the table hold.
    #[must_use]
    pub fn held(&self) -> BTreeSet<PageId> {
        let occupants = self.slots.iter().filter_map(|slot| slot.occupant.as_ref());
        occupants.flat_map(Occupant::pages).copied().collect()
    }

    /// Pages that a new request may have: free ones, and kept ones that no request holds.
    #[must_use]
    pub fn spare_pages(&self) -> usize {
        let held = self.held();
        self.pool.len() + self.cache.pages().filter(|page| !held.contains(page)).count()
    }

    /// Number of free slots.
    #[must_use]
    pub fn free_slots(&self) -> usize {
        self.slots.iter().filter(|slot| slot.occupant.is_none()).count()
    }

    /// Whether the group leaves after this round.
    #[must_use]
    pub fn leaving(&self) -> bool {
        self.closing && self.idle()
    }

    /// Whether nothing is left to do: no slot used, no forward in flight.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.flights.queue.is_empty() && self.slots.iter().all(|slot| slot.occupant.is_none())
    }
}

impl<O: Occupant> Counters for State<O> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        for (index, slot) in (0..).map(SlotIndex).zip(&mut self.slots) {
            visit(Counter::Generation(index), &mut slot.generation.0);
            visit(Counter::Attempt(index), &mut slot.attempt.0);
            slot.occupant.visit(visit);
        }
        self.cache.visit(visit);
        self.host.visit(visit);
        visit(Counter::Forward, &mut self.flights.next.0);
        self.flights.queue.visit(visit);
    }
}
