//! Pages in the memory of the ranks' hosts, and the copies on their way there and back: the prefill group's kept pages, the decode group's
//! requests that gave their pages up. All of it is agreed: every rank copies the same pages. What only a rank sees is how far its copies
//! are; a copy is complete once it is on every rank, and copies complete in the order of their issue.

use crate::counters::{Counter, Counters};
use crate::fault::Fault;
use crate::ids::{CopyId, HostPageId, PageId};
use crate::table::PagePool;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Which way a page is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the device to its host.
    Store,
    /// From the host to its device.
    Load,
}

/// A copy that was issued and is not agreed to be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Copy {
    /// Its number.
    pub id: CopyId,
    /// Which way.
    pub direction: Direction,
    /// The page on the device.
    pub page: PageId,
    /// The page on the host.
    pub host: HostPageId,
}

impl fmt::Display for Copy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, direction, page, host } = self;
        match direction {
            Direction::Store => write!(formatter, "{id} {page} to {host}"),
            Direction::Load => write!(formatter, "{id} {host} to {page}"),
        }
    }
}

/// The hosts' pages that are free, and the copies that are outstanding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostMemory {
    /// Outstanding, in the order of issue.
    copies: Vec<Copy>,
    /// The next copy's number.
    next: CopyId,
    /// The free pages.
    free: PagePool<HostPageId>,
}

impl HostMemory {
    /// So many pages on each host, all of them free.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        let free = PagePool::new((0..pages).map(HostPageId));
        Self { copies: Vec::new(), next: CopyId(0), free }
    }

    /// Outstanding copies, in the order of issue.
    #[must_use]
    pub fn copies(&self) -> &[Copy] {
        &self.copies
    }

    /// The free pages.
    #[must_use]
    pub fn free(&self) -> &[HostPageId] {
        self.free.free()
    }

    /// Whether an outstanding copy reads or writes one of the devices' pages.
    #[must_use]
    pub fn touches(&self, pages: &[PageId]) -> bool {
        self.copies.iter().any(|copy| pages.contains(&copy.page))
    }

    /// Whether one of the devices' pages has not come back from the hosts yet.
    #[must_use]
    pub fn loading(&self, pages: &[PageId]) -> bool {
        let loads = |copy: &Copy| copy.direction == Direction::Load && pages.contains(&copy.page);
        self.copies.iter().any(loads)
    }

    /// Takes `count` pages, or none if there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Option<Vec<HostPageId>> {
        self.free.take(count)
    }

    /// Gives pages back. A copy of them that is under way does not matter: the next one is made behind it.
    pub(crate) fn give(&mut self, pages: &mut Vec<HostPageId>) {
        self.free.give(pages);
    }

    /// Issues a copy.
    pub(crate) fn issue(&mut self, direction: Direction, page: PageId, host: HostPageId) -> Copy {
        let copy = Copy { id: self.next, direction, page, host };
        self.next.0 += 1;
        self.copies.push(copy);
        copy
    }

    /// Takes out the oldest `count` copies, which are complete on every rank.
    pub(crate) fn settle(&mut self, count: usize) -> Result<(), Fault> {
        if count > self.copies.len() {
            return Err(Fault::UnexpectedCopy(self.next));
        }
        self.copies.drain(..count);
        Ok(())
    }
}

impl Counters for HostMemory {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Copy, &mut self.next.0);
        self.copies.iter_mut().for_each(|copy| visit(Counter::Copy, &mut copy.id.0));
    }
}
