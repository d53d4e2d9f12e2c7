//! What one rank has heard from readers, and the one place where it waits for them.
//!
//! Readers (threads of `mesh`, or the peers themselves in `threads`) deliver entries and ends; the
//! member awaits one entry of each peer. A reader wakes the member only when that changes its
//! verdict, so a collective costs one wake-up and not one for each peer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::GroupError;
use super::heard::{End, Entry, Heard, Interest, TESTIMONY};
use crate::socket::after;

/// The mailbox was closed, or stayed full until the deadline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Undelivered {
    Closed,
    Full,
}

#[derive(Debug)]
struct State {
    heard: Heard,
    interest: Option<Interest>,
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
            state: Mutex::new(State { heard: Heard::new(me, size), interest: None, closed: false }),
            settled: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// An empty buffer for a payload from `rank`, used before if possible.
    pub(super) fn spare(&self, rank: usize) -> Vec<u8> {
        self.lock().heard.spare(rank)
    }

    /// Delivers an entry of `rank`; waits for room until `deadline`, or until the mailbox closes.
    pub(super) fn deliver(
        &self,
        rank: usize,
        entry: Entry,
        deadline: Option<Instant>,
    ) -> Result<(), Undelivered> {
        let mut state = self.lock();
        while !state.closed && state.heard.is_full(rank) {
            state = wait(&self.room, state, deadline).ok_or(Undelivered::Full)?;
        }
        if state.closed {
            return Err(Undelivered::Closed);
        }
        state.heard.enter(rank, entry);
        self.wake_if_settled(&state);
        Ok(())
    }

    /// Records that nothing more will come from `rank`.
    pub(super) fn end(&self, rank: usize, end: End) {
        let mut state = self.lock();
        state.heard.end(rank, end);
        self.wake_if_settled(&state);
    }

    /// Waits for one entry of each peer, all as `interest` says, and moves their payloads into
    /// `payloads` (by rank), whose old buffers it keeps for reuse.
    pub(super) fn await_entries(
        &self,
        interest: Interest,
        deadline: Duration,
        payloads: &mut [Vec<u8>],
    ) -> Result<(), GroupError> {
        let state = self.lock();
        let (mut state, arrived) = self.await_verdict(state, interest, deadline)?;
        if !arrived {
            if state.heard.misses_several() {
                (state, _) = self.await_verdict(state, Interest::Testimony, TESTIMONY)?;
            }
            return Err(state.heard.missing(deadline));
        }
        state.heard.take_entries(payloads);
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
        self.lock().heard.stuck(rank, waited)
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
        state.interest = Some(interest);
        let verdict = loop {
            if let Some(verdict) = state.heard.verdict(interest) {
                break Some(verdict);
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break None;
            };
            (state, _) = self.settled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        };
        state.interest = None;
        match verdict {
            Some(verdict) => verdict.map(|()| (state, true)),
            None => Ok((state, false)),
        }
    }

    fn wake_if_settled(&self, state: &State) {
        if state.interest.is_some_and(|interest| state.heard.verdict(interest).is_some()) {
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

#[cfg(test)]
mod tests;
