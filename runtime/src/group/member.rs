//! One rank's membership: the collectives, on top of one primitive, the exchange.
//!
//! An exchange sends this rank's entry to every peer and awaits one entry of each. The first error
//! is final: the member tells every peer whom it blames (poison), closes, and repeats the error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::collectives::Collectives;
use super::error::GroupError;
use super::frame::{HEADER_BYTES, Header, Operation};
use super::mailbox::Mailbox;
use super::tag::Tag;
use crate::socket::after;

/// How long a failing member tries to tell one peer whom it blames.
const POISON_DEADLINE: Duration = Duration::from_millis(100);

/// What carries frames to the peers of one rank.
pub trait Wire: Send {
    /// Sends one whole frame to `rank`; `false` when it did not get through by `deadline`. A peer
    /// that is gone counts as sent: what it said before it went decides, and the mailbox has that.
    fn send(&mut self, rank: usize, frame: &[u8], deadline: Instant) -> bool;

    /// Closes the way to every peer; what was sent still arrives.
    fn close(&mut self);
}

/// One rank of a group; [`super::Mesh`] and [`super::Threads`] are its two kinds.
#[derive(Debug)]
pub struct Member<W: Wire> {
    rank: usize,
    limit: usize,
    wire: W,
    mailbox: Arc<Mailbox>,
    /// This rank's frame: the header, then the payload.
    frame: Vec<u8>,
    /// The peers' payloads of the last exchange, by rank; this rank's own place stays empty.
    payloads: Vec<Vec<u8>>,
    failure: Option<GroupError>,
}

impl<W: Wire> Member<W> {
    pub(super) fn new(rank: usize, size: usize, limit: usize, wire: W, mailbox: Arc<Mailbox>) -> Self {
        Self {
            rank,
            limit,
            wire,
            mailbox,
            frame: Vec::new(),
            payloads: vec![Vec::new(); size],
            failure: None,
        }
    }

    /// Gives every rank all payloads, by rank, its own included.
    ///
    /// # Errors
    /// Any [`GroupError`]; it is final.
    pub fn all_gather(
        &mut self,
        tag: Tag,
        payload: &[u8],
        deadline: Duration,
    ) -> Result<Vec<Vec<u8>>, GroupError> {
        self.exchange(Operation::Gather, tag, |out| out.extend_from_slice(payload), deadline)?;
        Ok((0..self.payloads.len()).map(|rank| self.payload(rank).to_vec()).collect())
    }

    /// Replaces each element by its sum over all ranks, added strictly in rank order, so that every
    /// rank has bitwise the same result. All ranks pass equally many.
    ///
    /// # Errors
    /// Any [`GroupError`]; it is final.
    pub fn all_reduce_sum(
        &mut self,
        tag: Tag,
        values: &mut [f32],
        deadline: Duration,
    ) -> Result<(), GroupError> {
        let bytes =
            |out: &mut Vec<u8>| values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        self.exchange(Operation::Sum, tag, bytes, deadline)?;
        self.require_equal_lengths(tag)?;
        for rank in 0..self.payloads.len() {
            let theirs = self.payload(rank).as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            for (sum, value) in values.iter_mut().zip(theirs) {
                *sum = if rank == 0 { value } else { *sum + value };
            }
        }
        Ok(())
    }

    /// The payload of `rank` in the exchange that has just completed.
    fn payload(&self, rank: usize) -> &[u8] {
        if rank == self.rank { &self.frame[HEADER_BYTES..] } else { &self.payloads[rank] }
    }

    fn exchange(
        &mut self,
        operation: Operation,
        tag: Tag,
        payload: impl FnOnce(&mut Vec<u8>),
        deadline: Duration,
    ) -> Result<(), GroupError> {
        self.require_usable()?;
        let done = self
            .compose(operation, tag, payload)
            .and_then(|()| self.post(deadline))
            .and_then(|()| self.mailbox.await_entries(operation, tag, deadline, &mut self.payloads));
        done.map_err(|error| self.fail(error))
    }

    fn compose(
        &mut self,
        operation: Operation,
        tag: Tag,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), GroupError> {
        self.frame.clear();
        self.frame.resize(HEADER_BYTES, 0);
        payload(&mut self.frame);
        let length = self.frame.len() - HEADER_BYTES;
        let over = GroupError::Oversize { rank: self.rank, length, limit: self.limit };
        let fits = u32::try_from(length).ok().filter(|_| length <= self.limit);
        let header = Header::Entry { operation, tag, length: fits.ok_or(over)? };
        self.frame[..HEADER_BYTES].copy_from_slice(&header.encode());
        Ok(())
    }

    /// Sends the frame to each peer, the next rank first, so that not all begin with rank 0.
    fn post(&mut self, deadline: Duration) -> Result<(), GroupError> {
        let until = after(deadline);
        let size = self.payloads.len();
        for peer in (1..size).map(|step| (self.rank + step) % size) {
            if !self.wire.send(peer, &self.frame, until) {
                return Err(self.mailbox.stuck(peer, deadline));
            }
        }
        Ok(())
    }

    fn require_usable(&self) -> Result<(), GroupError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn require_equal_lengths(&mut self, tag: Tag) -> Result<(), GroupError> {
        let ours = self.payload(self.rank).len();
        let odd = (0..self.payloads.len()).find(|&rank| self.payload(rank).len() != ours);
        let Some(rank) = odd else { return Ok(()) };
        let theirs = self.payload(rank).len();
        Err(self.fail(GroupError::UnequalLength { rank, tag, ours, theirs }))
    }

    /// Makes `error` final: tells the peers, closes, and returns it.
    fn fail(&mut self, error: GroupError) -> GroupError {
        let (culprit, last) = error.culprit(self.rank);
        let culprit = u32::try_from(culprit).unwrap_or(u32::MAX);
        let poison = Header::Poison { culprit, last }.encode();
        for peer in (0..self.payloads.len()).filter(|&peer| peer != self.rank) {
            self.wire.send(peer, &poison, after(POISON_DEADLINE));
        }
        self.wire.close();
        self.failure = Some(error.clone());
        error
    }
}

impl<W: Wire> Collectives for Member<W> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.payloads.len()
    }

    fn all_reduce_min(&mut self, tag: Tag, values: &mut [u64], deadline: Duration) -> Result<(), GroupError> {
        let bytes =
            |out: &mut Vec<u8>| values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        self.exchange(Operation::Min, tag, bytes, deadline)?;
        self.require_equal_lengths(tag)?;
        for payload in &self.payloads {
            let theirs = payload.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
            for (value, theirs) in values.iter_mut().zip(theirs) {
                *value = theirs.min(*value);
            }
        }
        Ok(())
    }

    fn broadcast(
        &mut self,
        tag: Tag,
        root: usize,
        payload: Option<&[u8]>,
        max: usize,
        deadline: Duration,
    ) -> Result<Vec<u8>, GroupError> {
        self.require_usable()?;
        if root >= self.payloads.len() || payload.is_some() != (root == self.rank) {
            return Err(self.fail(GroupError::Misuse(
                "a broadcast takes a payload on its root and on no other rank, and its root is a rank of the group",
            )));
        }
        let bytes = |out: &mut Vec<u8>| out.extend_from_slice(payload.unwrap_or_default());
        self.exchange(Operation::Broadcast { root }, tag, bytes, deadline)?;
        let length = self.payload(root).len();
        if length > max {
            return Err(self.fail(GroupError::Oversize { rank: root, length, limit: max }));
        }
        Ok(self.payload(root).to_vec())
    }

    fn wait_for_leader(&mut self, deadline: Duration) -> Result<bool, GroupError> {
        self.require_usable()?;
        let heard = self.mailbox.await_leader(deadline);
        heard.map_err(|error| self.fail(error))
    }
}

impl<W: Wire> Drop for Member<W> {
    fn drop(&mut self) {
        self.wire.close();
    }
}
