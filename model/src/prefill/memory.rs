//! What the pages of one rank hold, on its device and on its host: a ghost of the world, by which a leg that begins with what was computed for
//! another is held to it. Of pages that are not kept, and of prompts that are not looked up, only that they hold something else is known.

use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::host::{Copy, Direction};
use lockstep_spec::ids::{BlockKey, PageId};
use lockstep_spec::invariant::{kv_before_run, no_write_after_free};
use lockstep_spec::prefill::leg::LegTenant;
use lockstep_spec::table::{Row, State};

/// A copy that is under way, and what it copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Copying {
    copy: Copy,
    key: BlockKey,
}

/// The pages of a rank and of its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    pages: Vec<Option<BlockKey>>,
    host: Vec<Option<BlockKey>>,
    copying: Vec<Copying>,
    /// Whether a copy took something else than it was to copy.
    mistaken: bool,
}

type Held = Result<(), &'static str>;

impl Memory {
    /// Nothing is computed.
    #[must_use]
    pub fn new(pages: u32, host_pages: u32) -> Self {
        let (pages, host) = (vec![None; pages as usize], vec![None; host_pages as usize]);
        Self { pages, host, copying: Vec::new(), mistaken: false }
    }

    /// Copies that are under way, oldest first.
    pub fn copies(&self) -> impl Iterator<Item = &Copy> {
        self.copying.iter().map(|copying| &copying.copy)
    }

    /// A forward with this row of a leg is queued: it reads the pages before its positions, and writes those of its positions.
    pub fn compute(
        &mut self,
        state: &State<LegTenant>,
        row: &Row,
        keys: &[BlockKey],
        page_size: u32,
    ) -> Held {
        let [from, to, full] = [
            row.position,
            (row.position + row.tokens).next_multiple_of(page_size),
            row.position + row.tokens,
        ]
        .map(|position| (position / page_size) as usize);
        self.read(&row.pages[..from.min(row.pages.len())], keys)?;
        for (index, page) in row.pages.iter().enumerate().take(to).skip(from) {
            let mut others = state.enumerate().filter(|(slot, _)| *slot != row.slot);
            let held = others
                .any(|(_, slot)| slot.occupant.as_ref().is_some_and(|tenant| tenant.pages.contains(page)));
            let copied = self.copies().any(|copy| copy.page == *page);
            if held || copied || state.cache.pages().any(|kept| kept == *page) {
                return Err(no_write_after_free::PROPERTY.id);
            }
            self.pages[page.0 as usize] = keys.get(index).copied().filter(|_| index < full);
        }
        Ok(())
    }

    /// Something reads these pages of a leg: they are to hold what its keys say.
    pub fn read(&self, pages: &[PageId], keys: &[BlockKey]) -> Held {
        let mut known = pages.iter().zip(keys);
        let right = known.all(|(page, key)| self.pages[page.0 as usize] == Some(*key));
        if right { Ok(()) } else { Err(kv_before_run::PROPERTY.id) }
    }

    /// A copy of what is kept under `key` is issued. A page to which it goes holds nothing until it is complete.
    pub fn start(&mut self, copy: Copy, key: BlockKey) {
        match copy.direction {
            Direction::Store => {}
            Direction::Load => self.pages[copy.page.0 as usize] = None,
        }
        self.copying.push(Copying { copy, key });
    }

    /// The oldest copy is complete. Copies are made one after another, so what is on the host now is what it takes.
    pub fn complete(&mut self) {
        if self.copying.is_empty() {
            return;
        }
        let Copying { copy, key } = self.copying.remove(0);
        let (page, host) = (&mut self.pages[copy.page.0 as usize], &mut self.host[copy.host.0 as usize]);
        let (from, to) = match copy.direction {
            Direction::Store => (page, host),
            Direction::Load => (host, page),
        };
        self.mistaken |= *from != Some(key);
        *to = *from;
    }

    /// Whether every copy takes what it is to copy. One to the host may read its page at any moment.
    #[must_use]
    pub fn sound(&self) -> bool {
        let reads = |copying: &&Copying| copying.copy.direction == Direction::Store;
        let mut stores = self.copying.iter().filter(reads);
        !self.mistaken && stores.all(|Copying { copy, key }| self.pages[copy.page.0 as usize] == Some(*key))
    }

    /// What is free holds nothing that anyone may count on.
    pub fn forget_free(&mut self, state: &State<LegTenant>) {
        state.pool.free().iter().for_each(|page| self.pages[page.0 as usize] = None);
        state.host.free().iter().for_each(|page| self.host[page.0 as usize] = None);
    }
}

impl Counters for Memory {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.copying.iter_mut().for_each(|copying| visit(Counter::Copy, &mut copying.copy.id.0));
    }
}
