//! The bounded queue to a peer and the thread that writes it out.
//!
//! Callers hand frames over and go on; they wait only for room, and not longer than their deadline.
//! When the connection ends the queue is dropped, so nothing of it is written later.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::FabricError;
use super::frame::Frame;
use super::leg::Leg;
use super::socket::Socket;
use crate::handover;
use crate::socket::{after, is_hangup, write_by};

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Frame>,
    ended: Option<FabricError>,
}

/// Frames that wait to be written to one peer.
#[derive(Debug)]
pub(super) struct Outbox {
    limit: usize,
    write_deadline: Duration,
    state: Mutex<State>,
    ready: Condvar,
    room: Condvar,
}

impl Outbox {
    /// A queue of at most `limit` frames (at least one), each written by `write_deadline`.
    pub(super) fn new(limit: usize, write_deadline: Duration) -> Self {
        Self {
            limit: limit.max(1),
            write_deadline,
            state: Mutex::default(),
            ready: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// Queues `frame`; waits for room until `deadline` has passed.
    pub(super) fn push(&self, frame: Frame, deadline: Duration) -> Result<(), FabricError> {
        let until = after(deadline);
        let mut state = self.lock();
        while state.ended.is_none() && state.queue.len() >= self.limit {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            let left = left.ok_or(FabricError::QueueFull)?;
            (state, _) = self.room.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended.is_some() {
            return Err(FabricError::Disconnected);
        }
        state.queue.push_back(frame);
        self.ready.notify_one();
        Ok(())
    }

    /// Ends the queue: what is in it is not written. The first cause is kept, and returned.
    fn end(&self, cause: FabricError) -> FabricError {
        let mut state = self.lock();
        let cause = state.ended.get_or_insert(cause).clone();
        self.ready.notify_all();
        self.room.notify_all();
        cause
    }

    /// Writes frames to `stream` until the queue ends, and reports each leg's last frame once the
    /// kernel has it. A failed write ends the queue and the connection.
    pub(super) fn write_out(&self, stream: &Socket, written: impl Fn(Leg)) {
        let ending = Ending::new(self, stream);
        while let Some(frame) = self.next() {
            let until = after(self.write_deadline);
            let done = write_by(stream, &frame.head, until)
                .and_then(|()| write_by(stream, &frame.body, until))
                .and_then(|()| give(stream, frame.file.as_ref()));
            if let Err((_, error)) = done {
                ending.end(cause(&error));
                return;
            }
            frame.ends.into_iter().for_each(&written);
        }
    }

    fn next(&self) -> Option<Frame> {
        let mut state = self.lock();
        loop {
            if state.ended.is_some() {
                return None;
            }
            if let Some(frame) = state.queue.pop_front() {
                self.room.notify_one();
                return Some(frame);
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a connection, reached also when a sink panics: the queue ends, so that its writer
/// stops, and the stream closes, so that its reader does.
pub(super) struct Ending<'a> {
    outbox: &'a Outbox,
    stream: &'a Socket,
}

impl<'a> Ending<'a> {
    pub(super) fn new(outbox: &'a Outbox, stream: &'a Socket) -> Self {
        Self { outbox, stream }
    }

    /// Ends the connection for `cause`, and returns the first cause given.
    pub(super) fn end(self, cause: FabricError) -> FabricError {
        self.outbox.end(cause)
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.outbox.end(FabricError::Closed);
        // Fails only if the peer closed first, which is as good.
        drop(self.stream.end());
    }
}

/// Sends the file of a frame that has one.
fn give(stream: &Socket, file: Option<&OwnedFd>) -> Result<(), (usize, io::Error)> {
    file.map_or(Ok(()), |file| handover::give(&stream.0, file).map_err(|error| (0, error)))
}

fn cause(error: &io::Error) -> FabricError {
    if error.kind() == ErrorKind::TimedOut {
        FabricError::Stuck
    } else if is_hangup(error.kind()) {
        FabricError::Closed
    } else {
        FabricError::io("writing to the peer", error)
    }
}
