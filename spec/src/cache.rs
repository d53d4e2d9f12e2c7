//! The prefix cache of a prefill group: full pages of prompts that were computed, kept for prompts that begin alike, and their copies in
//! the memory of the ranks' hosts. All of it is agreed: every rank keeps, evicts and copies the same pages. What only a rank sees is how far
//! its copies are; a copy is complete once it is on every rank, and copies complete in the order of their issue.

use crate::counters::{Counter, Counters};
use crate::fault::Fault;
use crate::ids::{BlockKey, CopyId, HostPageId, PageId};
use crate::table::PagePool;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A kept page: on the devices, on the hosts, or on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// What it holds.
    pub key: BlockKey,
    /// Its page on the devices.
    pub page: Option<PageId>,
    /// Its page on the hosts.
    pub host: Option<HostPageId>,
}

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

/// Pages that are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrefixCache {
    /// Least recently used first; of one prompt, the last page first. The order is the clock: a time would grow without bound.
    blocks: Vec<Block>,
    /// Outstanding, in the order of issue.
    copies: Vec<Copy>,
    /// The next copy's number.
    next: CopyId,
    /// The free pages of the hosts.
    free: PagePool<HostPageId>,
}

impl PrefixCache {
    /// A cache that keeps nothing, with `host_pages` pages on each host.
    #[must_use]
    pub fn new(host_pages: u32) -> Self {
        let free = PagePool::new((0..host_pages).map(HostPageId));
        Self { blocks: Vec::new(), copies: Vec::new(), next: CopyId(0), free }
    }

    /// What is kept, least recently used first.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Outstanding copies, in the order of issue.
    #[must_use]
    pub fn copies(&self) -> &[Copy] {
        &self.copies
    }

    /// The free pages of the hosts.
    #[must_use]
    pub fn free_host_pages(&self) -> &[HostPageId] {
        self.free.free()
    }

    /// The devices' pages that are kept.
    pub fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.blocks.iter().filter_map(|block| block.page)
    }

    /// Whether a page of the devices is kept.
    #[must_use]
    pub fn keeps(&self, page: PageId) -> bool {
        self.pages().any(|kept| kept == page)
    }

    /// What is kept under a key.
    #[must_use]
    pub fn block(&self, key: BlockKey) -> Option<&Block> {
        self.blocks.iter().find(|block| block.key == key)
    }

    /// How many leading `keys` are kept.
    #[must_use]
    pub fn matched(&self, keys: &[BlockKey]) -> usize {
        keys.iter().take_while(|key| self.block(**key).is_some()).count()
    }

    /// Whether a copy may still touch a page of the devices.
    #[must_use]
    pub fn copying(&self, page: PageId) -> bool {
        self.copies.iter().any(|copy| copy.page == page)
    }

    /// Whether one of these pages has not come back from the hosts yet.
    #[must_use]
    pub fn loading(&self, pages: &[PageId]) -> bool {
        let loads = |copy: &Copy| copy.direction == Direction::Load && pages.contains(&copy.page);
        self.copies.iter().any(loads)
    }

    /// Keeps a computed page, unless there is one already. Returns whether it is kept.
    pub(crate) fn keep(&mut self, key: BlockKey, page: PageId) -> bool {
        match self.blocks.iter_mut().find(|block| block.key == key) {
            Some(Block { page: Some(_), .. }) => return false,
            Some(block) => block.page = Some(page),
            None => self.blocks.push(Block { key, page: Some(page), host: None }),
        }
        true
    }

    /// Notes the use of a prompt's pages. Its first page is given up last: without it, the others are of no use.
    pub(crate) fn touch(&mut self, keys: &[BlockKey]) {
        let age =
            |block: &Block| keys.iter().position(|key| *key == block.key).map(|index| keys.len() - index);
        self.blocks.sort_by_key(age);
    }

    /// Gives up the least recently used block for which `which` holds on the devices. Returns its page.
    pub(crate) fn evict(&mut self, which: impl Fn(&Block, PageId) -> bool) -> Option<PageId> {
        let index = self.blocks.iter().position(|block| block.page.is_some_and(|page| which(block, page)))?;
        let page = self.blocks[index].page.take();
        self.drop_if_nowhere(index);
        page
    }

    /// Takes a page of the hosts: a free one, or that of the least recently used block for which `which` holds. The flag says that it was
    /// another block's.
    pub(crate) fn host_page(&mut self, which: impl Fn(&Block) -> bool) -> Option<(HostPageId, bool)> {
        if let Some(free) = self.free.take(1).and_then(|mut pages| pages.pop()) {
            return Some((free, false));
        }
        let index = self.blocks.iter().position(|block| block.host.is_some() && which(block))?;
        let host = self.blocks[index].host.take()?;
        self.drop_if_nowhere(index);
        Some((host, true))
    }

    fn drop_if_nowhere(&mut self, index: usize) {
        if matches!(self.blocks[index], Block { page: None, host: None, .. }) {
            self.blocks.remove(index);
        }
    }

    /// Issues the copy of a kept page to a page of the hosts.
    pub(crate) fn store(&mut self, key: BlockKey, host: HostPageId) -> Option<Copy> {
        let block = self.blocks.iter_mut().find(|block| block.key == key)?;
        block.host = Some(host);
        let page = block.page?;
        Some(self.issue(Direction::Store, page, host))
    }

    /// Issues the copy of a page of the hosts to `page`.
    pub(crate) fn load(&mut self, key: BlockKey, page: PageId) -> Option<Copy> {
        let block = self.blocks.iter_mut().find(|block| block.key == key)?;
        block.page = Some(page);
        let host = block.host?;
        Some(self.issue(Direction::Load, page, host))
    }

    fn issue(&mut self, direction: Direction, page: PageId, host: HostPageId) -> Copy {
        let copy = Copy { id: self.next, direction, page, host };
        self.next.0 += 1;
        self.copies.push(copy);
        copy
    }

    /// Takes out the oldest `count` copies, which are complete on every rank.
    pub(crate) fn complete(&mut self, count: usize) -> Result<(), Fault> {
        if count > self.copies.len() {
            return Err(Fault::UnexpectedCopy(self.next));
        }
        self.copies.drain(..count);
        Ok(())
    }
}

impl Counters for PrefixCache {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Copy, &mut self.next.0);
        self.copies.iter_mut().for_each(|copy| visit(Counter::Copy, &mut copy.id.0));
    }
}
