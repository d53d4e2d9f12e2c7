//! The desk where the groups are deployed apart: what decode's side of the line asks of it, and what prefill's does.

use tokio::sync::mpsc;

use super::{Desk, Standing};
use crate::frontend::journal::Journal;
use crate::wire::{Draw, FrontToRank, Leg, Role, Room, ToPrefill};
use lockstep_spec::ids::Epoch;

impl Desk {
    /// The epoch of the decode group that is, or is to come.
    pub fn decode_epoch(&self) -> Epoch {
        self.lock().journal.epoch()
    }

    /// Begins with a later epoch than the first, before anything is taken in.
    pub fn start_at(&self, epoch: Epoch) {
        let mut inner = self.lock();
        inner.journal = Journal::new(epoch, self.plan.retries());
        inner.detach();
    }

    /// Takes a line to a prefill side into use for decode's `epoch`: what is still wanted is asked for, and what was held back is submitted.
    /// None if that epoch is over. What is to be said over the line is received from what is returned; when that is closed, the line is to
    /// end.
    pub fn attach(&self, epoch: Epoch, room: Room) -> Option<mpsc::Receiver<ToPrefill>> {
        let mut inner = self.lock();
        if inner.journal.epoch() != epoch {
            return None;
        }
        let (outbox, words) = mpsc::channel(self.plan.outbox_messages());
        inner.attached.as_mut()?.attach(outbox, room);
        inner.ask_again();
        inner.journal.set_away(false);
        inner.hand_over();
        Some(words)
    }

    /// Notes that the line to the prefill side has ended.
    pub fn detach(&self) {
        self.lock().detach();
    }

    /// Ties this prefill group to a decode deployment, whose epochs before `since` are over. What a rank can hold, and this group's epoch;
    /// none while it takes no legs.
    pub fn admit(&self, deployment: u64, since: Epoch) -> Option<(Room, Epoch)> {
        let mut inner = self.lock();
        let Standing::Ready(room) = *self.standing.borrow() else { return None };
        inner.tell_all(Role::Prefill, &FrontToRank::Attach { deployment, since });
        Some((room, inner.groups.epoch()))
    }

    /// Has every prefill rank compute a leg of the decode deployment that it is tied to.
    pub fn compute(&self, leg: Leg, acceptance: u64, work: &(Vec<u32>, Draw)) {
        self.lock().compute(leg, acceptance, work);
    }
}
