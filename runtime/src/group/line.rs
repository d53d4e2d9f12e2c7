//! A rank's line to its peers, and the one that most transports share: frames out over a wire, answers in through a mailbox.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::GroupError;
use super::frame::{Header, Operation};
use super::heard::Interest;
use super::mailbox::Mailbox;
use super::tag::Tag;
use crate::socket::after;

/// How long a failing rank tries to tell one peer whom it blames.
const POISON_DEADLINE: Duration = Duration::from_millis(100);

/// An entry into a collective, ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Posting<'a> {
    /// What the collective does with the payloads.
    pub operation: Operation,
    /// Which collective it is.
    pub tag: Tag,
    /// The whole frame: the header, then the payload.
    pub frame: &'a [u8],
}

/// What a member needs of a transport.
pub trait Line: Debug + Send {
    /// Gives every peer this rank's entry and waits for one of each, whose payloads it leaves in `payloads` by rank.
    ///
    /// # Errors
    /// Any [`GroupError`] of a peer; `Missing` when one has not entered by the deadline.
    fn exchange(
        &mut self,
        posting: Posting<'_>,
        deadline: Duration,
        payloads: &mut [Vec<u8>],
    ) -> Result<(), GroupError>;

    /// Waits until rank 0 has entered something (`true`) or `deadline` has passed (`false`).
    ///
    /// # Errors
    /// Any [`GroupError`] of a peer.
    fn await_leader(&mut self, deadline: Duration) -> Result<bool, GroupError>;

    /// Tells every peer that the group has failed, whom this rank blames, and what that one entered last.
    fn poison(&mut self, culprit: usize, last: Option<Tag>);

    /// Closes the way to every peer; what was sent still arrives.
    fn close(&mut self);
}

impl Line for Box<dyn Line> {
    fn exchange(
        &mut self,
        posting: Posting<'_>,
        deadline: Duration,
        payloads: &mut [Vec<u8>],
    ) -> Result<(), GroupError> {
        (**self).exchange(posting, deadline, payloads)
    }

    fn await_leader(&mut self, deadline: Duration) -> Result<bool, GroupError> {
        (**self).await_leader(deadline)
    }

    fn poison(&mut self, culprit: usize, last: Option<Tag>) {
        (**self).poison(culprit, last);
    }

    fn close(&mut self) {
        (**self).close();
    }
}

/// What carries frames to the peers of one rank, for a [`Mailed`] line.
pub trait Wire: Debug + Send {
    /// Sends one whole frame to `rank`; `false` when it did not get through by `deadline`. A peer
    /// that is gone counts as sent: what it said before it went decides, and the mailbox has that.
    fn send(&mut self, rank: usize, frame: &[u8], deadline: Instant) -> bool;

    /// Closes the way to every peer; what was sent still arrives.
    fn close(&mut self);
}

/// A line whose answers come through a mailbox that somebody else fills.
#[derive(Debug)]
pub struct Mailed<W: Wire> {
    rank: usize,
    size: usize,
    wire: W,
    mailbox: Arc<Mailbox>,
}

impl<W: Wire> Mailed<W> {
    pub(super) fn new(rank: usize, size: usize, wire: W, mailbox: Arc<Mailbox>) -> Self {
        Self { rank, size, wire, mailbox }
    }

    /// The other ranks, the next one first, so that not all begin with rank 0.
    fn peers(&self) -> impl Iterator<Item = usize> + use<W> {
        let (rank, size) = (self.rank, self.size);
        (1..size).map(move |step| (rank + step) % size)
    }

    fn post(&mut self, frame: &[u8], deadline: Duration) -> Result<(), GroupError> {
        let until = after(deadline);
        match self.peers().find(|&peer| !self.wire.send(peer, frame, until)) {
            Some(peer) => Err(self.mailbox.stuck(peer, deadline)),
            None => Ok(()),
        }
    }
}

impl<W: Wire> Line for Mailed<W> {
    fn exchange(
        &mut self,
        posting: Posting<'_>,
        deadline: Duration,
        payloads: &mut [Vec<u8>],
    ) -> Result<(), GroupError> {
        self.post(posting.frame, deadline)?;
        self.mailbox.await_entries(Interest::Entry(posting.operation, posting.tag), deadline, payloads)
    }

    fn await_leader(&mut self, deadline: Duration) -> Result<bool, GroupError> {
        self.mailbox.await_leader(deadline)
    }

    fn poison(&mut self, culprit: usize, last: Option<Tag>) {
        let culprit = u32::try_from(culprit).unwrap_or(u32::MAX);
        let poison = Header::Poison { culprit, last }.encode();
        for peer in self.peers() {
            self.wire.send(peer, &poison, after(POISON_DEADLINE));
        }
    }

    fn close(&mut self) {
        self.wire.close();
    }
}
