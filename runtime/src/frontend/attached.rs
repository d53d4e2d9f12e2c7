//! A decode front end's side of its line to prefill's: what it says over it, and what it would say again over the next one. Without I/O.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc;

use crate::wire::{Draw, Leg, Room, ToPrefill};
use lockstep_spec::ids::{RequestId, SlotIndex};

/// Rooms of which word is kept for the next line.
const MOST_UNSAID: usize = 1024;

/// A request, and how many generated tokens its leg covers.
type Covers = (u64, u32);

/// The line, if there is one, and what prefill was asked for.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    outbox: Option<mpsc::Sender<ToPrefill>>,
    /// What a prefill rank can hold, as the last line's other end said.
    room: Option<Room>,
    /// The latest leg of each decode slot in this epoch.
    wanted: BTreeMap<SlotIndex, (Covers, Leg)>,
    /// Rooms that were served while there was no line, the oldest first.
    unsaid: VecDeque<u64>,
}

impl Attached {
    /// Takes a line into use.
    pub(crate) fn attach(&mut self, outbox: mpsc::Sender<ToPrefill>, room: Room) {
        (self.outbox, self.room) = (Some(outbox), Some(room));
        std::mem::take(&mut self.unsaid).into_iter().for_each(|room| self.served(room));
    }

    /// Lets go of the line; its outbox is closed by that.
    pub(crate) fn detach(&mut self) {
        self.outbox = None;
    }

    /// What a prefill rank can hold; none before the first line.
    pub(crate) fn room(&self) -> Option<Room> {
        self.room
    }

    /// Whether there is a line.
    pub(crate) fn is_attached(&self) -> bool {
        self.outbox.is_some()
    }

    /// Asks for a leg, and remembers that it was.
    pub(crate) fn want(&mut self, covers: Covers, leg: Leg, (tokens, draw): (Vec<u32>, Draw)) {
        self.wanted.insert(leg.slot, (covers, leg));
        self.say(ToPrefill::Leg { leg, acceptance: covers.0, tokens, draw });
    }

    /// What was asked for in this epoch and may still be wanted: the latest leg of each slot, if its request is open.
    pub(crate) fn wanted(&mut self, is_open: impl Fn(RequestId) -> bool) -> Vec<(Covers, Leg)> {
        self.wanted.retain(|_, ((request, _), _)| is_open(RequestId(*request)));
        self.wanted.values().copied().collect()
    }

    /// Forgets what was asked for: that epoch is over.
    pub(crate) fn forget(&mut self) {
        self.wanted.clear();
    }

    /// Says that a room's request has its first token, or has ended.
    pub(crate) fn served(&mut self, room: u64) {
        if self.is_attached() {
            self.say(ToPrefill::Served { room });
        } else {
            self.unsaid.push_back(room);
            let beyond = self.unsaid.len().saturating_sub(MOST_UNSAID);
            self.unsaid.drain(..beyond);
        }
    }

    /// Says something, or loses it. A line that does not take what is said is given up.
    fn say(&mut self, word: ToPrefill) {
        self.outbox.take_if(|outbox| outbox.try_send(word).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Sampling;
    use lockstep_spec::ids::{Attempt, Epoch, Generation};

    fn leg(slot: u32, attempt: u64) -> Leg {
        Leg { epoch: Epoch(1), slot: SlotIndex(slot), generation: Generation(0), attempt: Attempt(attempt) }
    }

    #[test]
    fn attached_remembers_the_latest_leg_of_each_slot_while_its_request_is_open() {
        let mut attached = Attached::default();
        let draw = |index| Draw { sampling: Sampling::GREEDY, index };
        attached.want((5, 0), leg(0, 0), (vec![1], draw(0)));
        attached.want((6, 0), leg(1, 0), (vec![1], draw(0)));
        attached.want((5, 2), leg(0, 1), (vec![1, 2, 3], draw(2)));
        let all = attached.wanted(|_| true);
        assert_eq!(all, [((5, 2), leg(0, 1)), ((6, 0), leg(1, 0))], "though no line took them");
        assert_eq!(attached.wanted(|request| request.0 == 6), [((6, 0), leg(1, 0))]);
        attached.forget();
        assert!(attached.wanted(|_| true).is_empty());
    }

    #[test]
    fn attached_says_over_the_next_line_what_was_served_without_one() {
        let mut attached = Attached::default();
        (0..2 + MOST_UNSAID as u64).for_each(|room| attached.served(room));
        let (outbox, mut line) = mpsc::channel(2 * MOST_UNSAID);
        attached.attach(outbox, Room { pages: 1, page_size: 1, slots: 1, context: 1 });
        assert_eq!(line.try_recv(), Ok(ToPrefill::Served { room: 2 }), "the oldest are forgotten");
        assert_eq!(line.len(), MOST_UNSAID - 1);
    }

    #[test]
    fn attached_gives_a_line_up_that_takes_no_more() {
        let (outbox, mut line) = mpsc::channel(1);
        let mut attached = Attached::default();
        attached.attach(outbox, Room { pages: 1, page_size: 1, slots: 1, context: 1 });
        attached.served(1);
        assert!(attached.is_attached());
        attached.served(2);
        assert!(!attached.is_attached());
        assert_eq!(line.try_recv(), Ok(ToPrefill::Served { room: 1 }));
        assert_eq!(line.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
