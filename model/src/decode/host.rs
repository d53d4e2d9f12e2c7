//! What the host of one rank holds of requests that gave their pages up: a ghost of the world, by which a request that comes back is held to
//! its own KV. A device works in order: it reads a page once the forwards that were queued before have run, and what is written to one is
//! behind them by itself.

use lockstep_spec::configuration::GroupConfiguration;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::phase::Tenant;
use lockstep_spec::host::{Copy, Direction};
use lockstep_spec::ids::{ForwardId, Generation, HostPageId, PageId, SlotIndex};
use lockstep_spec::table::{Row, State};

/// The KV of one page of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Content {
    slot: SlotIndex,
    generation: Generation,
    /// Which of the request's pages.
    index: usize,
    /// Positions of the request, from its first on, whose KV was computed when the page was read.
    computed: u32,
}

/// A copy that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Copying {
    copy: Copy,
    /// What it copies, once the forwards before it have run.
    content: Content,
    /// Forwards that are queued before it and have not run; of the request's own, each computes a position.
    behind: Vec<bool>,
}

/// The pages of a rank's host, and those of its device that came from there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    copying: Vec<Copying>,
    stored: Vec<Option<Content>>,
    /// By page of the device, until a forward has read it.
    back: Vec<Option<Content>>,
}

impl Host {
    /// Nothing was copied.
    #[must_use]
    pub fn new(configuration: &GroupConfiguration) -> Self {
        let [stored, back] =
            [configuration.host_pages, configuration.pages].map(|pages| vec![None; pages as usize]);
        Self { copying: Vec::new(), stored, back }
    }

    /// The copy that may be complete next.
    #[must_use]
    pub fn next(&self) -> Option<&Copy> {
        let may_run = |copying: &&Copying| match copying.copy.direction {
            Direction::Store => copying.behind.is_empty(),
            Direction::Load => true,
        };
        self.copying.first().filter(may_run).map(|copying| &copying.copy)
    }

    /// A copy is issued behind these forwards. Says whether somebody holds the page.
    pub fn start(&mut self, state: &State<Tenant>, copy: Copy, queued: &[ForwardId]) -> bool {
        let holder = state.enumerate().find_map(|(slot, entry)| {
            let tenant = entry.occupant.as_ref()?;
            let index = tenant.pages.iter().position(|page| *page == copy.page)?;
            let computed = tenant.next_position(state.flights.naming(slot));
            Some(Content { slot, generation: entry.generation, index, computed })
        });
        let Some(content) = holder else { return false };
        let unrun = state.flights.queue.iter().filter(|flight| queued.contains(&flight.id));
        let own = unrun.map(|flight| flight.rows.iter().any(|row| row.slot == content.slot));
        self.copying.push(Copying { copy, content, behind: own.collect() });
        true
    }

    /// The oldest forward has run.
    pub fn retire(&mut self) {
        for copying in self.copying.iter_mut().filter(|copying| !copying.behind.is_empty()) {
            copying.behind.remove(0);
        }
    }

    /// The oldest copy is complete.
    pub fn complete(&mut self) {
        if self.copying.is_empty() {
            return;
        }
        let Copying { copy, mut content, behind } = self.copying.remove(0);
        let (page, host) = (copy.page.0 as usize, copy.host.0 as usize);
        content.computed -= u32::try_from(behind.iter().filter(|own| **own).count()).unwrap_or_default();
        match copy.direction {
            Direction::Store => self.stored[host] = Some(content),
            Direction::Load => self.back[page] = self.stored[host],
        }
    }

    /// A forward reads what came back for the row's request: its own KV, all of it, and nothing that is still to come. Says whether it is so.
    pub fn read(&mut self, configuration: &GroupConfiguration, row: &Row, generation: Generation) -> bool {
        let pages = &row.pages[..configuration.pages_for(row.position).min(row.pages.len())];
        let own = |(index, page): (usize, &PageId)| {
            let computed = row.position;
            self.back[page.0 as usize] == Some(Content { slot: row.slot, generation, index, computed })
        };
        let loads = |page: &PageId| self.copying.iter().any(|copying| copying.copy.page == *page);
        let whole = pages.iter().enumerate().all(own) && !pages.iter().any(loads);
        pages.iter().for_each(|page| self.back[page.0 as usize] = None);
        whole
    }

    /// Whether every page that is copied is held by the request that it is copied for.
    #[must_use]
    pub fn sound(&self, state: &State<Tenant>) -> bool {
        self.copying.iter().all(|Copying { copy, content, .. }| {
            let slot = state.slot(content.slot).filter(|slot| slot.generation == content.generation);
            let tenant = slot.and_then(|slot| slot.occupant.as_ref());
            tenant.is_some_and(|tenant| tenant.pages.get(content.index) == Some(&copy.page))
        })
    }

    /// What is free holds nothing that anyone may count on.
    pub fn forget_free(&mut self, state: &State<Tenant>) {
        state.pool.free().iter().for_each(|page| self.back[page.0 as usize] = None);
        let read = |host: HostPageId| {
            let reads = |copy: &Copy| copy.direction == Direction::Load && copy.host == host;
            self.copying.iter().any(|copying| reads(&copying.copy))
        };
        let unread: Vec<HostPageId> = state.host.free().iter().copied().filter(|host| !read(*host)).collect();
        unread.iter().for_each(|host| self.stored[host.0 as usize] = None);
    }
}

impl Counters for Host {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        for Copying { copy, content, .. } in &mut self.copying {
            visit(Counter::Copy, &mut copy.id.0);
            content.visit(visit);
        }
        self.stored.iter_mut().chain(&mut self.back).flatten().for_each(|content| content.visit(visit));
    }
}

impl Counters for Content {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        visit(Counter::Generation(self.slot), &mut self.generation.0);
    }
}
