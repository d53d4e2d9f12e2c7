//! One rank's membership: the collectives, on top of one primitive, the exchange.
//!
//! An exchange sends this rank's entry to every peer and awaits one entry of each. The first error
//! is final: the member tells every peer whom it blames (poison), closes, and repeats the error.

use std::time::Duration;

use super::collectives::Collectives;
use super::error::GroupError;
use super::forming::Forming;
use super::frame::{HEADER_BYTES, Header, Operation};
use super::line::{Line, Posting};
use super::tag::Tag;

/// One rank of a group, over whatever line it has to its peers.
#[derive(Debug)]
pub struct Member<L: Line> {
    rank: usize,
    limit: usize,
    line: L,
    /// This rank's frame: the header, then the payload.
    frame: Vec<u8>,
    /// The peers' payloads of the last exchange, by rank; this rank's own place stays empty.
    payloads: Vec<Vec<u8>>,
    failure: Option<GroupError>,
}

impl<L: Line> Member<L> {
    pub(super) fn new(rank: usize, size: usize, limit: usize, line: L) -> Self {
        Self { rank, limit, line, frame: Vec::new(), payloads: vec![Vec::new(); size], failure: None }
    }

    /// The member that `forming` describes, with its line to the peers that it has met.
    pub(super) fn of(forming: &Forming, line: L) -> Self {
        Self::new(forming.rank, forming.size, forming.payload_limit, line)
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
        let done = self.compose(operation, tag, payload).and_then(|()| {
            let posting = Posting { operation, tag, frame: &self.frame };
            self.line.exchange(posting, deadline, &mut self.payloads)
        });
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
        self.line.poison(culprit, last);
        self.line.close();
        self.failure = Some(error.clone());
        error
    }
}

impl<L: Line> Collectives for Member<L> {
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
        let heard = self.line.await_leader(deadline);
        heard.map_err(|error| self.fail(error))
    }
}

impl<L: Line> Drop for Member<L> {
    fn drop(&mut self) {
        self.line.close();
    }
}
