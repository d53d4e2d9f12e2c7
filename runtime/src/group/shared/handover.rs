//! How the processes of a group come to map each other's blocks.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::board::{Board, Layout, fall};
use super::deathwatch::Deathwatch;
use super::line::{Patience, Shared};
use super::mapping::Mapping;
use crate::group::error::GroupError;
use crate::group::forming::{Files, Forming, meet};
use crate::group::frame::HEADER_BYTES;
use crate::group::line::{Line, Posting};
use crate::group::member::Member;
use crate::group::tag::Tag;
use crate::group::transport::Transport;
use crate::handover;
use crate::socket::{after, is_transient};

/// Words of a ring: what fits goes through in one piece, and 512 KiB are enough for any longer one to go through in few.
const RING_WORDS: std::ops::RangeInclusive<usize> = 512..=64 * 1024;

/// Looks at the blocks without giving up the core: a few microseconds.
const SPINS: u32 = 100;
/// Looks at the blocks with others let run in between. On a core of its own a rank gets it back at once, so that this is spinning too;
/// on a shared one it is what lets the peer go on.
const YIELDS: u32 = 50;
/// Ranks of a machine that serves, for one of a group: the other group has as many.
const GROUPS: usize = 2;

/// The line of one rank through shared memory.
#[derive(Debug)]
pub struct SharedMemory {
    shared: Shared<Mapping>,
    watch: Deathwatch,
}

impl Member<SharedMemory> {
    /// Meets all peers of `forming`, compares the configuration with each, and maps their blocks.
    ///
    /// # Errors
    /// As [`super::super::Mesh::form`]; `Malformed` for a peer whose block is none.
    pub fn form(forming: &Forming) -> Result<Self, GroupError> {
        Ok(Self::of(forming, SharedMemory::join(forming)?))
    }
}

impl SharedMemory {
    /// Meets all peers and maps their blocks.
    pub(crate) fn join(forming: &Forming) -> Result<Self, GroupError> {
        let until = after(forming.deadline);
        let streams = meet(forming, Files::open(forming, Transport::Shm)?)?;
        Self::start(forming, streams, until)
    }

    fn start(
        forming: &Forming,
        streams: Vec<Option<UnixStream>>,
        until: Instant,
    ) -> Result<Self, GroupError> {
        let (rank, size) = (forming.rank, forming.size);
        let layout = Layout::new(size);
        let failed = |error: io::Error| {
            GroupError::io("making the memory that the ranks share (--transport unix needs none)", &error)
        };
        let (own, file) = Mapping::create(layout.words(ring_words(forming.payload_limit))).map_err(failed)?;
        let own = Arc::new(own);
        let peers: Vec<(usize, UnixStream)> =
            streams.into_iter().enumerate().filter_map(|(rank, stream)| Some((rank, stream?))).collect();
        for (_, stream) in &peers {
            // A peer that is gone is noticed when its own block does not come.
            drop(handover::give(stream, &file));
        }
        let mut blocks = vec![Arc::clone(&own); size];
        for (peer, stream) in &peers {
            blocks[*peer] = Arc::new(take(*peer, stream, forming.deadline, until)?);
        }
        let board = Board::new(rank, blocks).ok_or(GroupError::Malformed { rank })?;
        let shared = Shared::new(rank, size, forming.payload_limit, board, patience(size));
        let watch = Deathwatch::start(peers, move |rank| fall(own.as_ref(), layout, rank))
            .map_err(|error| GroupError::io("starting the watch over the peers", &error))?;
        Ok(Self { shared, watch })
    }
}

/// Words of the ring for payloads of up to `limit` bytes.
fn ring_words(limit: usize) -> usize {
    let words = limit.saturating_add(HEADER_BYTES).div_ceil(8).saturating_add(1);
    words.min(*RING_WORDS.end()).next_power_of_two().max(*RING_WORDS.start())
}

/// Spinning helps only where it keeps nobody from running.
fn patience(size: usize) -> Patience {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Patience { spins: if cores >= size * GROUPS { SPINS } else { 0 }, yields: YIELDS }
}

impl Line for SharedMemory {
    fn exchange(
        &mut self,
        posting: Posting<'_>,
        deadline: Duration,
        payloads: &mut [Vec<u8>],
    ) -> Result<(), GroupError> {
        self.shared.exchange(posting, deadline, payloads)
    }

    fn await_leader(&mut self, deadline: Duration) -> Result<bool, GroupError> {
        self.shared.await_leader(deadline)
    }

    fn poison(&mut self, culprit: usize, last: Option<Tag>) {
        self.shared.poison(culprit, last);
    }

    fn close(&mut self) {
        self.watch.close();
    }
}

/// Receives and maps the block of `rank`.
fn take(rank: usize, stream: &UnixStream, deadline: Duration, until: Instant) -> Result<Mapping, GroupError> {
    let failed = |error: io::Error| GroupError::io("receiving the memory of a peer", &error);
    stream.set_nonblocking(false).map_err(failed)?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(GroupError::Missing { rank, waited: deadline, last: None });
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match handover::take(stream) {
            Ok(Some(file)) => return Mapping::open(file).map_err(|error| unusable(rank, &error)),
            Ok(None) => return Err(GroupError::Gone { rank, last: None }),
            Err(error) if is_transient(error.kind()) => {}
            Err(_) => return Err(GroupError::Gone { rank, last: None }),
        }
    }
}

fn unusable(rank: usize, error: &io::Error) -> GroupError {
    if error.kind() == ErrorKind::InvalidData {
        return GroupError::Malformed { rank };
    }
    GroupError::io("mapping the memory of a peer", error)
}
