//! Prompts that begin alike: what a leg finds in the cache, what it leaves there, and what is given up for it.

use crate::cache::{Block, PrefixCache};
use crate::host::{Copy, Direction};
use crate::ids::{BlockKey, PageId, SlotIndex};
use crate::prefill::action::Action;
use crate::prefill::decide::Deciding;
use crate::prefill::leg::PrefillLeg;
use crate::prefill::rules::Rules;
use crate::table::State;
use crate::why::Why;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl<R: Rules> Deciding<'_, R> {
    /// Most keys that a leg of `tokens` tokens comes with: those of its full pages, as far as pages are kept.
    pub(super) fn most_keys(&self, tokens: u32) -> usize {
        (tokens / self.configuration.page_size).min(self.configuration.prefix_pages) as usize
    }

    /// The leading pages of a leg that are kept and that it need not compute, and how many positions they hold.
    pub(super) fn matched<'leg>(&self, leg: &'leg PrefillLeg) -> (&'leg [BlockKey], u32) {
        let most = R::matchable(leg.tokens, self.configuration.page_size);
        let matched = u32::try_from(self.state.cache.matched(&leg.keys)).unwrap_or(most).min(most);
        (leg.keys.get(..matched as usize).unwrap_or_default(), matched * self.configuration.page_size)
    }

    /// The pages of a leg that begins with the kept pages `prefix`, `count` in all; none, and nothing changes, if there are too few.
    pub(super) fn take_pages(&mut self, prefix: &[BlockKey], count: usize) -> Option<Vec<PageId>> {
        let here = prefix.iter().filter(|key| self.state.cache.page(**key).is_some()).count();
        if !self.make_room(count.saturating_sub(here), prefix) {
            return None;
        }
        let mut pages = Vec::with_capacity(count);
        for key in prefix {
            pages.push(match self.state.cache.page(*key) {
                Some(page) => page,
                None => self.load(*key)?,
            });
        }
        pages.extend(self.state.pool.take(count.saturating_sub(prefix.len()))?);
        self.state.cache.touch(prefix);
        self.reasons.extend(prefix.iter().map(|_| Why::PrefixMatched));
        Some(pages)
    }

    /// Sees to it that `count` pages are free: kept ones are given up, least recently used first, but for those of `prefix`.
    fn make_room(&mut self, count: usize, prefix: &[BlockKey]) -> bool {
        let Some(lacking) = count.checked_sub(self.state.pool.len()).filter(|lacking| *lacking > 0) else {
            return true;
        };
        let (held, prefix) = (self.state.held(), prefix.iter().collect::<BTreeSet<_>>());
        let copied: BTreeSet<PageId> = self.state.host.copies().iter().map(|copy| copy.page).collect();
        let evictable = |page: PageId| R::evictable(held.contains(&page), copied.contains(&page));
        let spare = |block: &Block| !prefix.contains(&block.key) && block.page.is_some_and(evictable);
        let given_up = self.state.cache.by_age(spare);
        let Some(given_up) = given_up.get(..lacking) else { return false };
        let mut pages = self.state.cache.evict(given_up);
        self.reasons.extend(pages.iter().map(|_| Why::BlockEvicted));
        self.state.pool.give(&mut pages);
        true
    }

    fn load(&mut self, key: BlockKey) -> Option<PageId> {
        let page = self.state.pool.take(1)?.pop()?;
        let host = self.state.cache.load(key, page)?;
        self.actions.push(Action::Copy(self.state.host.issue(Direction::Load, page, host)));
        self.reasons.push(Why::BlockLoaded);
        Some(page)
    }

    /// Keeps the full pages of a leg that is computed. A page that was kept meanwhile for another leg stays this leg's own.
    pub(super) fn keep(&mut self, slot: SlotIndex) {
        let Some(tenant) = self.state.occupant(slot) else { return };
        let (keys, pages) = (tenant.arrival.keys.clone(), tenant.pages.clone());
        let kept = self.state.cache.keep(keys.iter().copied().zip(pages));
        self.reasons.extend(kept.iter().map(|_| Why::BlockKept));
        self.state.cache.touch(&keys);
        self.store(&kept, &keys);
    }

    /// Copies kept pages to the hosts, as far as these have room, or pages of other prompts. A copy that is under way does not matter: copies
    /// are made in the order of their issue.
    fn store(&mut self, kept: &[BlockKey], prompt: &[BlockKey]) {
        let prompt: BTreeSet<&BlockKey> = prompt.iter().collect();
        let State { cache, host, .. } = &mut self.state;
        let others = cache.by_age(|block| block.host.is_some() && !prompt.contains(&block.key));
        let bare = |key: &&BlockKey| cache.block(**key).is_some_and(|block| block.host.is_none());
        let bare: Vec<BlockKey> = kept.iter().filter(bare).copied().collect();
        let (hosts, forgotten) = cache.host_pages(host, bare.len(), &others);
        let stored = bare.iter().zip(hosts).filter_map(|(key, page)| Some((cache.store(*key, page)?, page)));
        let copies: Vec<Copy> =
            stored.map(|(page, host_page)| host.issue(Direction::Store, page, host_page)).collect();
        self.reasons.extend((0..forgotten).map(|_| Why::BlockForgotten));
        self.reasons.extend(copies.iter().map(|_| Why::BlockStored));
        self.actions.extend(copies.into_iter().map(Action::Copy));
    }
}

/// Those of a leg's pages that are not kept.
pub(super) fn own<R: Rules>(cache: &PrefixCache, keys: &[BlockKey], pages: Vec<PageId>) -> Vec<PageId> {
    let keys = keys.iter().copied().map(Some).chain(core::iter::repeat(None));
    let kept = |page, key: Option<BlockKey>| key.and_then(|key| cache.page(key)) == Some(page);
    pages
        .into_iter()
        .zip(keys)
        .filter(|(page, key)| !R::leaves_kept(kept(*page, *key)))
        .map(|(page, _)| page)
        .collect()
}
