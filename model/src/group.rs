//! A group of real ranks and how their collectives meet, without what surrounds them. A [`crate::world::World`] is one group in its
//! environment.

use crate::explore::fingerprint;
use crate::rebase::Renaming;
use crate::rendezvous::{Control, Device};
use crate::traces::{Happened, Log};
use lockstep_spec::invariant::violated_by;
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
use lockstep_spec::ticket::{Communicator, SiteName, Ticket};

/// The ranks of one group, and what they have entered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group<P: RankProgram> {
    /// The ranks.
    pub ranks: Vec<P>,
    /// What they have entered and await.
    pub control: Control<P::Site>,
    /// What they have queued on the device communicator, what they await of it included.
    pub device: Device<P::Site>,
    /// By rank: whether it has died. What it entered stays entered.
    dead: Vec<bool>,
    log: Log<P>,
}

impl<P: RankProgram> Group<P> {
    /// Ranks that have entered nothing.
    #[must_use]
    pub fn new(ranks: Vec<P>) -> Self {
        let count = ranks.len();
        let (control, device, dead) = (Control::new(count), Device::new(count), vec![false; count]);
        Self { ranks, control, device, dead, log: Log::default() }
    }

    /// Puts ranks that have done nothing yet into the place of these.
    pub fn renew(&mut self, ranks: Vec<P>) {
        let log = std::mem::take(&mut self.log);
        *self = Self { log, ..Self::new(ranks) };
    }

    /// Begins to keep what happens to ranks.
    pub fn keep_log(&mut self) {
        self.log.keep();
    }

    /// Takes out what was kept of what happened to ranks, in order.
    pub fn take_log(&mut self) -> Vec<Happened<P>> {
        self.log.take()
    }

    /// Whether a rank has not died.
    #[must_use]
    pub fn lives(&self, rank: usize) -> bool {
        !self.dead[rank]
    }

    /// Whether no rank has died.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.dead.contains(&true)
    }

    /// Lets a rank die. Nothing reads its memory any more; `blank` stands for it, so that states which differ in it alone are one.
    pub fn kill(&mut self, rank: usize, blank: P) {
        self.ranks[rank] = blank;
        self.dead[rank] = true;
    }

    /// Lets a rank take an event: its entries are noted, and what it does alone is returned, in order.
    ///
    /// # Errors
    /// The property that an entry or a fault violates.
    pub fn step(
        &mut self,
        rank: usize,
        event: Event<P::Fact, P::Site>,
    ) -> Result<Vec<P::Local>, &'static str> {
        let mut effects = Vec::new();
        let kept = self.log.keeps().then(|| event.clone());
        self.ranks[rank].step(event, &mut effects);
        kept.into_iter().for_each(|event| self.log.note(rank, event, &effects));
        let mut locals = Vec::new();
        for effect in effects {
            match effect {
                Effect::Enter(entry) => self.enter(rank, entry.into())?,
                Effect::Local(local) => locals.push(local),
                Effect::Fault(fault) => return Err(violated_by(&fault)),
                Effect::Leave => {}
            }
        }
        Ok(locals)
    }

    fn enter(&mut self, rank: usize, posted: Posted<P::Site>) -> Result<(), &'static str> {
        let site = posted.ticket.site;
        if site.communicator() == Communicator::Device {
            self.device.enter(rank, posted.ticket)?;
        }
        if site.awaited() {
            self.control.enter(rank, posted);
        }
        Ok(())
    }

    /// Whether a rank's device can finish its oldest collective, and the rank does not await it.
    #[must_use]
    pub fn retires(&self, rank: usize) -> bool {
        self.device.queue(rank).first().is_some_and(|oldest| !oldest.site.awaited())
            && self.device.completes(rank)
    }

    /// Whether a rank can take the outcome that it awaits: all have entered, and its device has come to it, if it is one of its queue.
    #[must_use]
    pub fn takes(&self, rank: usize) -> bool {
        self.control.takes(rank) && !self.is_held_up(rank)
    }

    /// Whether a rank awaits something of its device's queue that has others ahead of it there.
    #[must_use]
    pub fn is_held_up(&self, rank: usize) -> bool {
        let queued = |ticket: &&Ticket<P::Site>| ticket.site.communicator() == Communicator::Device;
        let awaited = self.control.ticket(rank).filter(queued);
        awaited.is_some_and(|ticket| self.device.queue(rank).first() != Some(ticket))
    }

    /// Lets one rank take the outcome that it awaits.
    ///
    /// # Errors
    /// The violated property, as of [`Control::take`].
    pub fn take(&mut self, rank: usize) -> Result<Posted<P::Site>, &'static str> {
        let posted = self.control.take(rank)?;
        if posted.ticket.site.communicator() == Communicator::Device {
            self.device.retire(rank);
        }
        Ok(posted)
    }

    /// What a rank is and has entered, as one number.
    #[must_use]
    pub fn part(&self, rank: usize) -> u128 {
        fingerprint(&(&self.ranks[rank], self.dead[rank], self.control.part(rank), self.device.part(rank)))
    }

    /// Puts ranks into another order: place `i` gets rank `order[i]`, with what it has entered.
    pub fn arrange(&mut self, order: &[usize]) {
        arrange(&mut self.ranks, order);
        arrange(&mut self.dead, order);
        self.control.arrange(order);
        self.device.arrange(order);
    }

    /// Whether nothing is entered and nothing queued.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.control.is_empty() && self.device.is_empty()
    }

    /// Collects the counters of ranks between rounds.
    pub fn collect(&mut self, renaming: &mut Renaming) {
        self.ranks.iter_mut().for_each(|rank| renaming.collect(rank));
        self.device.rebase(&mut |ticket| renaming.collect(&mut ticket.round));
    }

    /// Renames the counters of ranks between rounds.
    pub fn rename(&mut self, renaming: &Renaming) {
        self.ranks.iter_mut().for_each(|rank| renaming.rename(rank));
        self.device.rebase(&mut |ticket| renaming.rename(&mut ticket.round));
    }
}

/// Puts parts into another order: place `i` gets part `order[i]`.
pub fn arrange<T: Clone>(parts: &mut Vec<T>, order: &[usize]) {
    *parts = order.iter().map(|from| parts[*from].clone()).collect();
}
