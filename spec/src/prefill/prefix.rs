//! Prompts that begin alike: what a leg finds in the cache, what it leaves there, and what is given up for it.

use crate::cache::Block;
use crate::ids::{BlockKey, PageId, SlotIndex};
use crate::prefill::action::Action;
use crate::prefill::decide::Deciding;
use crate::prefill::leg::PrefillLeg;
use crate::prefill::rules::Rules;
use crate::why::Why;
use alloc::vec::Vec;

impl<R: Rules> Deciding<'_, R> {
    /// Most keys that a leg of `tokens` tokens comes with: those of its full pages, as far as pages are kept.
    pub(super) fn most_keys(&self, tokens: u32) -> usize {
        (tokens / self.configuration.page_size).min(self.configuration.prefix_pages) as usize
    }

    /// The leading pages of a leg that are kept, and that it need not compute.
    pub(super) fn matched<'leg>(&self, leg: &'leg PrefillLeg) -> &'leg [BlockKey] {
        let most = R::matchable(leg.tokens, self.configuration.page_size) as usize;
        let matched = self.state.cache.matched(&leg.keys).min(most);
        leg.keys.get(..matched).unwrap_or_default()
    }

    /// The pages of a leg that begins with the kept pages `prefix`, `count` in all; none, and nothing changes, if there are too few.
    pub(super) fn take_pages(&mut self, prefix: &[BlockKey], count: usize) -> Option<Vec<PageId>> {
        let here = prefix.iter().filter(|key| self.page(**key).is_some()).count();
        if !self.make_room(count.saturating_sub(here), prefix) {
            return None;
        }
        let mut pages = Vec::with_capacity(count);
        for key in prefix {
            pages.push(match self.page(*key) {
                Some(page) => page,
                None => self.load(*key)?,
            });
        }
        pages.extend(self.state.pool.take(count.saturating_sub(prefix.len()))?);
        self.state.cache.touch(prefix);
        self.reasons.extend(prefix.iter().map(|_| Why::PrefixMatched));
        Some(pages)
    }

    fn page(&self, key: BlockKey) -> Option<PageId> {
        self.state.cache.block(key)?.page
    }

    /// Sees to it that `count` pages are free: kept ones are given up, least recently used first, but for those of `prefix`.
    fn make_room(&mut self, count: usize, prefix: &[BlockKey]) -> bool {
        let (state, cache) = (&self.state, &self.state.cache);
        let evictable = |block: &Block, page: PageId| {
            !prefix.contains(&block.key) && R::evictable(state.holds(page), cache.copying(page))
        };
        let spare =
            cache.blocks().iter().filter(|block| block.page.is_some_and(|page| evictable(block, page)));
        let given_up: Vec<BlockKey> =
            spare.take(count.saturating_sub(state.pool.len())).map(|block| block.key).collect();
        if state.pool.len() + given_up.len() < count {
            return false;
        }
        for key in given_up {
            let mut page = self.state.cache.evict(|block, _| block.key == key).into_iter().collect();
            self.state.pool.give(&mut page);
            self.reasons.push(Why::BlockEvicted);
        }
        true
    }

    fn load(&mut self, key: BlockKey) -> Option<PageId> {
        let page = self.state.pool.take(1)?.pop()?;
        let copy = self.state.cache.load(key, page)?;
        self.actions.push(Action::Copy(copy));
        self.reasons.push(Why::BlockLoaded);
        Some(page)
    }

    /// Keeps the full pages of a leg that is computed. A page that was kept meanwhile for another leg stays this leg's own.
    pub(super) fn keep(&mut self, slot: SlotIndex) {
        let Some(tenant) = self.state.occupant(slot) else { return };
        let (keys, pages) = (tenant.arrival.keys.clone(), tenant.pages.clone());
        let kept: Vec<BlockKey> = keys
            .iter()
            .zip(pages)
            .filter(|(key, page)| self.state.cache.keep(**key, *page))
            .map(|(key, _)| *key)
            .collect();
        self.reasons.extend(kept.iter().map(|_| Why::BlockKept));
        self.state.cache.touch(&keys);
        kept.iter().for_each(|key| self.store(*key, &keys));
    }

    /// Copies a kept page to the hosts, if they have room, or pages of other prompts. A copy that is under way does not matter: copies are
    /// made in the order of their issue.
    fn store(&mut self, key: BlockKey, prompt: &[BlockKey]) {
        if self.state.cache.block(key).is_none_or(|block| block.host.is_some()) {
            return;
        }
        let others = |block: &Block| !prompt.contains(&block.key);
        let Some((host, anothers)) = self.state.cache.host_page(others) else { return };
        if anothers {
            self.reasons.push(Why::BlockForgotten);
        }
        if let Some(copy) = self.state.cache.store(key, host) {
            self.actions.push(Action::Copy(copy));
            self.reasons.push(Why::BlockStored);
        }
    }
}
