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
    /// When it was used last: higher than all that were used before. Only the order counts.
    pub used: u64,
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
    /// By key.
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

    /// What is kept, by key.
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

    /// What is kept under a key.
    #[must_use]
    pub fn block(&self, key: BlockKey) -> Option<&Block> {
        self.blocks.get(self.find(key).ok()?)
    }

    fn find(&self, key: BlockKey) -> Result<usize, usize> {
        self.blocks.binary_search_by_key(&key, |block| block.key)
    }

    fn block_mut(&mut self, key: BlockKey) -> Option<&mut Block> {
        let index = self.find(key).ok()?;
        self.blocks.get_mut(index)
    }

    /// The page of the devices that is kept under a key.
    #[must_use]
    pub fn page(&self, key: BlockKey) -> Option<PageId> {
        self.block(key)?.page
    }

    /// How many leading `keys` are kept.
    #[must_use]
    pub fn matched(&self, keys: &[BlockKey]) -> usize {
        keys.iter().take_while(|key| self.find(**key).is_ok()).count()
    }

    /// The keys under which `which` is kept, least recently used first.
    pub(crate) fn by_age(&self, which: impl Fn(&Block) -> bool) -> Vec<BlockKey> {
        let mut chosen: Vec<&Block> = self.blocks.iter().filter(|block| which(block)).collect();
        chosen.sort_unstable_by_key(|block| block.used);
        chosen.into_iter().map(|block| block.key).collect()
    }

    /// Whether one of these pages has not come back from the hosts yet.
    #[must_use]
    pub fn loading(&self, pages: &[PageId]) -> bool {
        let loads = |copy: &Copy| copy.direction == Direction::Load && pages.contains(&copy.page);
        self.copies.iter().any(loads)
    }

    /// Keeps computed pages, but for those that are here already. Returns the keys of those that it keeps now.
    pub(crate) fn keep(&mut self, computed: impl Iterator<Item = (BlockKey, PageId)>) -> Vec<BlockKey> {
        let (mut kept, mut new) = (Vec::new(), Vec::new());
        for (key, page) in computed {
            match self.block_mut(key) {
                Some(Block { page: Some(_), .. }) => continue,
                Some(block) => block.page = Some(page),
                None if new.iter().any(|block: &Block| block.key == key) => continue,
                None => new.push(Block { key, page: Some(page), host: None, used: 0 }),
            }
            kept.push(key);
        }
        self.blocks.append(&mut new);
        self.blocks.sort_unstable_by_key(|block| block.key);
        kept
    }

    /// Notes the use of a prompt's pages. Its first page is given up last: without it, the others are of no use.
    pub(crate) fn touch(&mut self, keys: &[BlockKey]) {
        let mut used = self.blocks.iter().map(|block| block.used).max().unwrap_or(0);
        for key in keys.iter().rev() {
            if let Some(block) = self.block_mut(*key) {
                used += 1;
                block.used = used;
            }
        }
    }

    /// Gives the pages of these blocks on the devices up.
    pub(crate) fn evict(&mut self, keys: &[BlockKey]) -> Vec<PageId> {
        let pages = keys.iter().filter_map(|key| self.block_mut(*key)?.page.take()).collect();
        self.drop_what_is_nowhere();
        pages
    }

    /// Takes pages of the hosts for so many blocks: free ones, then those of `others`, as far as there are any. The count says how many were
    /// others'.
    pub(crate) fn host_pages(&mut self, count: usize, others: &[BlockKey]) -> (Vec<HostPageId>, usize) {
        let mut pages = self.free.take(count.min(self.free.len())).unwrap_or_default();
        let lacking = (count - pages.len()).min(others.len());
        pages.extend(others[..lacking].iter().filter_map(|key| self.block_mut(*key)?.host.take()));
        self.drop_what_is_nowhere();
        (pages, lacking)
    }

    fn drop_what_is_nowhere(&mut self) {
        self.blocks.retain(|block| block.page.is_some() || block.host.is_some());
    }

    /// Issues the copy of a kept page to a page of the hosts.
    pub(crate) fn store(&mut self, key: BlockKey, host: HostPageId) -> Option<Copy> {
        let block = self.block_mut(key)?;
        let page = block.page?;
        block.host = Some(host);
        Some(self.issue(Direction::Store, page, host))
    }

    /// Issues the copy of a page of the hosts to `page`.
    pub(crate) fn load(&mut self, key: BlockKey, page: PageId) -> Option<Copy> {
        let block = self.block_mut(key)?;
        let host = block.host?;
        block.page = Some(page);
        Some(self.issue(Direction::Load, page, host))
    }

    fn issue(&mut self, direction: Direction, page: PageId, host: HostPageId) -> Copy {
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

impl Counters for PrefixCache {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.blocks.iter_mut().for_each(|block| visit(Counter::Use, &mut block.used));
        visit(Counter::Copy, &mut self.next.0);
        self.copies.iter_mut().for_each(|copy| visit(Counter::Copy, &mut copy.id.0));
    }
}
