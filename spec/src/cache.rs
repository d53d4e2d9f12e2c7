//! The prefix cache of a prefill group: full pages of prompts that were computed, kept for prompts that begin alike, and where their copies
//! are in the memory of the ranks' hosts. All of it is agreed: every rank keeps, evicts and copies the same pages.

use crate::counters::{Counter, Counters};
use crate::host::HostMemory;
use crate::ids::{BlockKey, HostPageId, PageId};
use alloc::vec::Vec;

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

/// Pages that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrefixCache {
    /// By key.
    blocks: Vec<Block>,
}

impl PrefixCache {
    /// What is kept, by key.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
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
    pub(crate) fn host_pages(
        &mut self,
        host: &mut HostMemory,
        count: usize,
        others: &[BlockKey],
    ) -> (Vec<HostPageId>, usize) {
        let mut pages = host.take(count.min(host.free().len())).unwrap_or_default();
        let lacking = (count - pages.len()).min(others.len());
        pages.extend(others[..lacking].iter().filter_map(|key| self.block_mut(*key)?.host.take()));
        self.drop_what_is_nowhere();
        (pages, lacking)
    }

    fn drop_what_is_nowhere(&mut self) {
        self.blocks.retain(|block| block.page.is_some() || block.host.is_some());
    }

    /// Notes that a kept page is copied to a page of the hosts, and says which page of the devices it is.
    pub(crate) fn store(&mut self, key: BlockKey, host: HostPageId) -> Option<PageId> {
        let block = self.block_mut(key)?;
        let page = block.page?;
        block.host = Some(host);
        Some(page)
    }

    /// Notes that a kept page of the hosts is copied to `page`, and says which page of the hosts it is.
    pub(crate) fn load(&mut self, key: BlockKey, page: PageId) -> Option<HostPageId> {
        let block = self.block_mut(key)?;
        let host = block.host?;
        block.page = Some(page);
        Some(host)
    }
}

impl Counters for PrefixCache {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.blocks.iter_mut().for_each(|block| visit(Counter::Use, &mut block.used));
    }
}
