//! What is on the wire: `[head bytes: u32][body bytes: u32][checksum of the lengths: u32][checksum of the head: u32][head: postcard][body]`,
//! little-endian.
//!
//! Only a page has a body, unless it lies in memory that both ends share. Both lengths are checked against the limits before anything is
//! allocated. Lengths and heads have checksums: a flipped bit there would make the reader wait for bytes that do not come, or a leg for a
//! page that went to another, until a deadline. A page's own checksum covers its identity too, so a page that lands under the wrong leg
//! or index is as corrupt as one with a flipped bit.

use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::FabricError;
use super::leg::{Leg, Pair, Row};
use super::socket::Socket;
use crate::socket::{after, is_hangup, is_transient};

/// First bytes of a connection.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"LSfb");
/// Version of the messages below.
pub(super) const VERSION: u32 = 5;

/// How often a thread looks up from its socket: rarely enough that an idle deployment costs little.
pub(super) const TICK: Duration = Duration::from_millis(100);

const LENGTHS_BYTES: usize = 8;
const PREFIX_BYTES: usize = LENGTHS_BYTES + 8;
/// Bytes of the longest reason that travels.
const REASON_BYTES: usize = 256;
/// More than any head without its pages and its reason takes.
const FIXED_HEAD_BYTES: usize = 128;
/// Bytes of the longest encoded page number.
const PAGE_NUMBER_BYTES: usize = 5;

/// Whether a message's body is what its sender meant: always, but for a page with a wrong checksum.
pub(super) fn is_whole(message: &ToDecode, body: &[u8]) -> bool {
    match *message {
        ToDecode::Page { leg, index, page, checksum: claimed, held: _ } => {
            claimed == checksum(leg, index, page, body)
        }
        ToDecode::Opened { .. }
        | ToDecode::Refused { .. }
        | ToDecode::HelloAck { .. }
        | ToDecode::Row { .. }
        | ToDecode::Fail { .. } => true,
    }
}

/// Bounds of one fabric connection; equal on both sides.
#[derive(Clone, Copy, Debug)]
pub struct FabricLimits {
    /// Longest page, bytes.
    pub page_bytes: usize,
    /// Most pages of one leg.
    pub pages_per_leg: usize,
    /// Most frames that wait to be written; with pages, times `page_bytes` of memory.
    pub queued_frames: usize,
    /// How long a caller may wait for room in the queue.
    pub enqueue_deadline: Duration,
    /// How long the peer may take to accept one frame.
    pub write_deadline: Duration,
}

impl FabricLimits {
    fn head_bytes(&self) -> usize {
        self.pages_per_leg.saturating_mul(PAGE_NUMBER_BYTES).saturating_add(FIXED_HEAD_BYTES + REASON_BYTES)
    }

    /// Refuses a longer page than there may be.
    pub(super) fn check_page(&self, bytes: usize) -> Result<(), FabricError> {
        check("a page", bytes, self.page_bytes)
    }

    /// Refuses more pages than one leg may have.
    pub(super) fn check_pages(&self, pages: usize) -> Result<(), FabricError> {
        check("a page list", pages, self.pages_per_leg)
    }
}

/// Messages from decode to prefill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToPrefill {
    Open {
        magic: u32,
        version: u32,
        pair: Pair,
        epoch: u64,
    },
    Hello {
        leg: Leg,
    },
    List {
        leg: Leg,
        pages: Vec<u32>,
    },
    Revoke {
        leg: Leg,
    },
    /// The page in this cell was taken.
    Taken {
        cell: u32,
    },
}

/// The sizes of memory that both ends share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sizes {
    /// Cells.
    pub(super) cells: u32,
    /// Bytes of a cell: a page of the prefill rank, which has heads of its own.
    pub(super) cell_bytes: u32,
}

/// Where a page lies in memory that both ends share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// The cell.
    pub(super) cell: u32,
    /// Its length.
    pub(super) bytes: u32,
}

/// Messages from prefill to decode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToDecode {
    /// If there is memory, its file follows, with one byte.
    Opened {
        version: u32,
        memory: Option<Sizes>,
    },
    Refused {
        why: String,
    },
    HelloAck {
        leg: Leg,
    },
    /// The page's bytes are the body of the frame, unless a cell holds them.
    Page {
        leg: Leg,
        index: u32,
        page: u32,
        checksum: u32,
        held: Option<Held>,
    },
    Row {
        leg: Leg,
        row: Row,
    },
    Fail {
        leg: Leg,
        reason: String,
    },
}

/// CRC-32 of a page and of where it belongs.
pub(super) fn checksum(leg: Leg, index: u32, page: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [leg.epoch.0, leg.generation.0, leg.attempt.0] {
        hasher.update(&number.to_le_bytes());
    }
    for number in [leg.slot.0, index, page] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(bytes);
    hasher.finalize()
}

/// `reason`, cut to what may travel.
pub(super) fn bounded_reason(reason: &str) -> String {
    reason[..reason.floor_char_boundary(REASON_BYTES)].to_owned()
}

/// Refuses a body where none belongs.
pub(super) fn require_no_body(body: &[u8]) -> Result<(), FabricError> {
    if body.is_empty() { Ok(()) } else { Err(FabricError::Malformed("a body where none belongs")) }
}

/// A message ready to be written.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// The leg whose last frame this is.
    pub(super) ends: Option<Leg>,
    /// The file that goes with it.
    pub(super) file: Option<OwnedFd>,
}

impl Frame {
    pub(super) fn new<M: Serialize>(message: &M, body: Vec<u8>) -> Result<Self, FabricError> {
        let unencodable = FabricError::Malformed("a message could not be encoded");
        let mut head = postcard::to_extend(message, vec![0; PREFIX_BYTES]).map_err(|_| unencodable)?;
        let lengths = [length("a head", head.len() - PREFIX_BYTES)?, length("a body", body.len())?];
        let checks =
            [lengths.as_flattened(), &head[PREFIX_BYTES..]].map(|bytes| crc32fast::hash(bytes).to_le_bytes());
        head[..LENGTHS_BYTES].copy_from_slice(lengths.as_flattened());
        head[LENGTHS_BYTES..PREFIX_BYTES].copy_from_slice(checks.as_flattened());
        Ok(Self { head, body, ends: None, file: None })
    }
}

/// Reads messages from a stream whose read timeout is the tick.
pub(super) struct Incoming<R> {
    input: R,
    limits: FabricLimits,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl<R: Read> Incoming<R> {
    pub(super) fn new(input: R, limits: FabricLimits) -> Self {
        Self { input, limits, head: Vec::new(), body: Vec::new() }
    }

    /// The next message and its body.
    pub(super) fn read<M: DeserializeOwned>(&mut self) -> Result<(M, &[u8]), FabricError> {
        let mut prefix = [0; PREFIX_BYTES];
        self.input.read_exact(&mut prefix).map_err(|error| ended(&error))?;
        let (words, _) = prefix.as_chunks();
        let [head, body, of_lengths, of_head] = [0, 1, 2, 3].map(|word| u32::from_le_bytes(words[word]));
        require_checksum(&prefix[..LENGTHS_BYTES], of_lengths)?;
        let [head, body] = [head, body].map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        check("a frame's head", head, self.limits.head_bytes())?;
        self.limits.check_page(body)?;
        fill(&mut self.input, &mut self.head, head)?;
        require_checksum(&self.head, of_head)?;
        fill(&mut self.input, &mut self.body, body)?;
        let message = match postcard::take_from_bytes(&self.head) {
            Ok((message, [])) => message,
            Ok((_, [_, ..])) => return Err(FabricError::Malformed("a head with bytes left over")),
            Err(_) => return Err(FabricError::Malformed("an unknown message")),
        };
        Ok((message, &self.body))
    }
}

/// A stream that calls `tick` at least every `TICK`, however busy or quiet it is, and gives up when
/// that says so. Its read timeout is at most `TICK`.
pub(super) struct Ticking<'a, T> {
    stream: &'a Socket,
    next: Instant,
    tick: T,
}

impl<'a, T: FnMut() -> io::Result<()>> Ticking<'a, T> {
    pub(super) fn new(stream: &'a Socket, tick: T) -> Self {
        let next = after(TICK);
        Self { stream, next, tick }
    }
}

impl<T: FnMut() -> io::Result<()>> Read for Ticking<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if Instant::now() >= self.next {
                (self.tick)()?;
                self.next = after(TICK);
            }
            match (&mut self.stream).read(buffer) {
                Err(error) if is_transient(error.kind()) => {}
                other => return other,
            }
        }
    }
}

/// Fails once `until` has passed: the tick of a wait with a deadline.
pub(super) fn require_before(until: Instant) -> io::Result<()> {
    if Instant::now() < until { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
}

fn check(what: &'static str, length: usize, limit: usize) -> Result<(), FabricError> {
    if length > limit {
        return Err(FabricError::Oversize { what, length, limit });
    }
    Ok(())
}

fn length(what: &'static str, length: usize) -> Result<[u8; 4], FabricError> {
    let limit = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
    let fits = u32::try_from(length).map_err(|_| FabricError::Oversize { what, length, limit });
    fits.map(u32::to_le_bytes)
}

fn require_checksum(bytes: &[u8], claimed: u32) -> Result<(), FabricError> {
    let broken = FabricError::Malformed("lengths or a head with a wrong checksum");
    if crc32fast::hash(bytes) == claimed { Ok(()) } else { Err(broken) }
}

fn fill(input: &mut impl Read, buffer: &mut Vec<u8>, length: usize) -> Result<(), FabricError> {
    buffer.resize(length, 0);
    input.read_exact(buffer).map_err(|error| ended(&error))
}

fn ended(error: &io::Error) -> FabricError {
    if is_hangup(error.kind()) {
        return FabricError::Closed;
    }
    if error.kind() == ErrorKind::TimedOut {
        return FabricError::Silent;
    }
    FabricError::io("reading from the peer", error)
}

#[cfg(test)]
mod tests;
