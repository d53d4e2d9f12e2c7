//! A group of real ranks and how their collectives meet, without what surrounds them. A [`crate::world::World`] is one group in its
//! environment.

use crate::rebase::Renaming;
use crate::rendezvous::{Control, Device};
use crate::traces::{Happened, Log};
use lockstep_spec::invariant::violated_by;
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
use lockstep_spec::ticket::{Communicator, SiteName};

/// The ranks of one group, and what they have entered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group<P: RankProgram> {
    /// The ranks.
    pub ranks: Vec<P>,
    /// What they have entered on the control communicator.
    pub control: Control<P::Site>,
    /// What they have queued on the device communicator.
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
        match posted.ticket.site.communicator() {
            Communicator::Control => {
                self.control.enter(rank, posted);
                Ok(())
            }
            Communicator::Device => self.device.enter(rank, posted.ticket),
        }
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
