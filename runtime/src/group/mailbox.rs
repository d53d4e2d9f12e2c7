//! What one rank has heard from its peers, and the one place where it waits for them.
//!
//! Readers (threads of `mesh`, or the peers themselves in `threads`) deliver entries and ends; the
//! member awaits one entry of each peer. A reader wakes the member only when that changes its
//! verdict, so a collective costs one wake-up and not one for each peer.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::GroupError;
use super::frame::Operation;
use super::tag::Tag;
use crate::socket::after;

/// Entries that a peer may be ahead. A collective completes only when all have entered, so a peer
/// is at most one ahead, plus the one being read.
const DEPTH: usize = 2;

/// A peer's entry into a collective.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) tag: Tag,
    pub(super) payload: Vec<u8>,
}

/// Why nothing more will come from a peer.
#[derive(Clone, Debug)]
pub(super) enum End {
    Closed,
    Failed(GroupError),
    Poison { culprit: usize, last: Option<Tag> },
}

/// The mailbox was closed, or stayed full until the deadline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undelivered {
    Closed,
    Full,
}

#[derive(Clone, Copy, Debug)]
enum Interest {
    Entry(Operation, Tag),
    Leader,
    Nothing,
}

#[derive(Debug, Default)]
struct Inbox {
    queue: VecDeque<Entry>,
    spare: Vec<Vec<u8>>,
    last: Option<Tag>,
}

#[derive(Debug)]
struct State {
    me: usize,
    inboxes: Vec<Inbox>,
    /// In order of arrival: the first fall is the cause of the later ones.
    ends: Vec<(usize, End)>,
    interest: Interest,
    closed: bool,
}

/// The entries and ends of all peers of one rank.
#[derive(Debug)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    settled: Condvar,
    room: Condvar,
}

impl Mailbox {
    pub(super) fn new(me: usize, size: usize) -> Self {
        Self {
            state: Mutex::new(State {
                me,
                inboxes: (0..size).map(|_| Inbox::default()).collect(),
                ends: Vec::new(),
                interest: Interest::Nothing,
                closed: false,
            }),
            settled: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// An empty buffer for a payload from `rank`, used before if possible.
    pub(super) fn spare(&self, rank: usize) -> Vec<u8> {
        self.lock().inboxes[rank].spare.pop().unwrap_or_default()
    }

    /// Delivers an entry of `rank`; waits for room until `deadline`, or until the mailbox closes.
    pub(super) fn deliver(
        &self,
        rank: usize,
        entry: Entry,
        deadline: Option<Instant>,
    ) -> Result<(), Undelivered> {
        let mut state = self.lock();
        while !state.closed && state.inboxes[rank].queue.len() >= DEPTH {
            state = wait(&self.room, state, deadline).ok_or(Undelivered::Full)?;
        }
        if state.closed {
            return Err(Undelivered::Closed);
        }
        let inbox = &mut state.inboxes[rank];
        inbox.last = Some(entry.tag);
        inbox.queue.push_back(entry);
        self.wake_if_settled(&state);
        Ok(())
    }

    /// Records that nothing more will come from `rank`.
    pub(super) fn end(&self, rank: usize, end: End) {
        let mut state = self.lock();
        state.ends.push((rank, end));
        self.wake_if_settled(&state);
    }

    /// Waits for one entry of each peer, all with this operation and tag, and moves their payloads
    /// into `payloads` (by rank), whose old buffers it keeps for reuse.
    pub(super) fn await_entries(
        &self,
        operation: Operation,
        tag: Tag,
        deadline: Duration,
        payloads: &mut [Vec<u8>],
    ) -> Result<(), GroupError> {
        let state = self.lock();
        let (mut state, arrived) = self.await_verdict(state, Interest::Entry(operation, tag), deadline)?;
        if !arrived {
            return Err(state.missing(deadline));
        }
        state.take_entries(payloads);
        self.room.notify_all();
        Ok(())
    }

    /// Waits for an entry of rank 0 and leaves it there; `false` when the deadline passes.
    pub(super) fn await_leader(&self, deadline: Duration) -> Result<bool, GroupError> {
        let state = self.lock();
        self.await_verdict(state, Interest::Leader, deadline).map(|(_state, arrived)| arrived)
    }

    /// The error for a peer that did not take this rank's frame within `waited`.
    pub(super) fn stuck(&self, rank: usize, waited: Duration) -> GroupError {
        let last = self.lock().inboxes[rank].last;
        GroupError::Missing { rank, waited, last }
    }

    /// Turns readers away, also those that wait for room.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.room.notify_all();
    }

    fn await_verdict<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        interest: Interest,
        deadline: Duration,
    ) -> Result<(MutexGuard<'a, State>, bool), GroupError> {
        let until = after(deadline);
        state.interest = interest;
        let verdict = loop {
            if let Some(verdict) = state.verdict() {
                break Some(verdict);
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break None;
            };
            (state, _) = self.settled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        };
        state.interest = Interest::Nothing;
        match verdict {
            Some(verdict) => verdict.map(|()| (state, true)),
            None => Ok((state, false)),
        }
    }

    fn wake_if_settled(&self, state: &State) {
        if state.verdict().is_some() {
            self.settled.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a notification; `None` when `deadline` has passed.
fn wait<'a>(
    condition: &Condvar,
    state: MutexGuard<'a, State>,
    deadline: Option<Instant>,
) -> Option<MutexGuard<'a, State>> {
    let Some(deadline) = deadline else {
        return Some(condition.wait(state).unwrap_or_else(PoisonError::into_inner));
    };
    let left = deadline.checked_duration_since(Instant::now())?;
    let (state, _) = condition.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
    Some(state)
}

impl State {
    /// How the member's wait ends, or `None` while it has to go on. What has arrived counts before
    /// a closed connection, so that a rank which left after its last collective fails nobody in
    /// it; poison counts before both, since the group has failed already.
    fn verdict(&self) -> Option<Result<(), GroupError>> {
        let (mismatch, arrived) = match self.interest {
            Interest::Nothing => return None,
            Interest::Leader => (None, self.me == 0 || self.has_entry(0)),
            Interest::Entry(operation, tag) => {
                let arrived = self.peers().all(|rank| self.has_entry(rank));
                (self.mismatch(operation, tag), arrived)
            }
        };
        if let Some(error) = mismatch.or_else(|| self.poisoned()) {
            return Some(Err(error));
        }
        if arrived { Some(Ok(())) } else { self.fallen().map(Err) }
    }

    fn peers(&self) -> impl Iterator<Item = usize> {
        let me = self.me;
        (0..self.inboxes.len()).filter(move |&rank| rank != me)
    }

    fn has_entry(&self, rank: usize) -> bool {
        !self.inboxes[rank].queue.is_empty()
    }

    fn mismatch(&self, operation: Operation, ours: Tag) -> Option<GroupError> {
        self.peers().find_map(|rank| {
            let theirs = self.inboxes[rank].queue.front()?;
            if theirs.tag != ours {
                let theirs = theirs.tag;
                return Some(GroupError::Mismatch { rank, ours, theirs });
            }
            (theirs.operation != operation).then_some(GroupError::MixedOperation {
                rank,
                tag: ours,
                ours: operation,
                theirs: theirs.operation,
            })
        })
    }

    /// What a peer testified: it saw the cause, while a closed connection may be a consequence.
    fn poisoned(&self) -> Option<GroupError> {
        self.ends.iter().find_map(|(by, end)| match end {
            End::Poison { culprit, last } => {
                Some(GroupError::Relayed { rank: *culprit, last: self.latest(*culprit, *last), by: *by })
            }
            End::Closed | End::Failed(_) => None,
        })
    }

    /// The later of what this rank saw of `rank` and what it was told; sites are numbered in the
    /// order of the round.
    fn latest(&self, rank: usize, told: Option<Tag>) -> Option<Tag> {
        let seen = self.inboxes.get(rank).and_then(|inbox| inbox.last);
        [seen, told].into_iter().flatten().max_by_key(|tag| (tag.epoch, tag.round, tag.site))
    }

    /// The first peer that ended and whose entry is still missing.
    fn fallen(&self) -> Option<GroupError> {
        let (rank, end) = self.ends.iter().find(|(rank, _)| !self.has_entry(*rank))?;
        match end {
            End::Failed(error) => Some(error.clone()),
            End::Closed | End::Poison { .. } => {
                Some(GroupError::Gone { rank: *rank, last: self.inboxes[*rank].last })
            }
        }
    }

    fn missing(&self, waited: Duration) -> GroupError {
        let rank = self.peers().find(|&rank| !self.has_entry(rank)).unwrap_or(self.me);
        GroupError::Missing { rank, waited, last: self.inboxes[rank].last }
    }

    fn take_entries(&mut self, payloads: &mut [Vec<u8>]) {
        for (inbox, payload) in self.inboxes.iter_mut().zip(payloads) {
            let Some(entry) = inbox.queue.pop_front() else {
                continue;
            };
            let mut used = std::mem::replace(payload, entry.payload);
            used.clear();
            if inbox.spare.len() < DEPTH {
                inbox.spare.push(used);
            }
        }
    }
}

#[cfg(test)]
mod tests;
