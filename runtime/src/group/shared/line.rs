//! A rank's line through shared memory: its frame into its own ring, the peers' frames out of theirs, and the wait.

use std::thread;
use std::time::{Duration, Instant};

use super::board::{Block, Board, POISON_WORDS, Want};
use crate::group::error::GroupError;
use crate::group::frame::{HEADER_BYTES, Header};
use crate::group::heard::{End, Entry, Heard, Interest, TESTIMONY};
use crate::group::line::Posting;
use crate::group::tag::Tag;
use crate::socket::after;

/// Words of a header.
const HEADER_WORDS: usize = HEADER_BYTES.div_ceil(8);

const _: () = assert!(HEADER_WORDS == POISON_WORDS);

/// How a rank waits before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// Looks without giving up the core.
    pub(super) spins: u32,
    /// Looks that let others run in between.
    pub(super) yields: u32,
}

/// After a wait of this length a rank sleeps at once the next time: nothing is going on.
const LIVELY: Duration = Duration::from_millis(2);

/// A core that comes back after more than this was given to somebody who keeps it; a sleeper is woken sooner than that.
const CROWDED: Duration = Duration::from_micros(100);
/// Waits after that which do not yield.
const CROWDED_WAITS: u32 = 256;

/// The line of one rank over blocks of memory, whatever holds them.
#[derive(Debug)]
pub(super) struct Shared<B> {
    me: usize,
    limit: usize,
    board: Board<B>,
    heard: Heard,
    incoming: Vec<Incoming>,
    /// Falls that have been looked at.
    falls: usize,
    /// Peers that have fallen, and some of whose words are still to be read.
    fallen: Vec<usize>,
    patience: Patience,
    lively: bool,
    /// Waits that are still to go without yielding.
    crowded: u32,
}

/// The frame that is coming in from a peer.
#[derive(Debug, Default)]
struct Incoming {
    header: [[u8; 8]; HEADER_WORDS],
    /// Words of the header that are there.
    filled: usize,
    payload: Vec<u8>,
    /// Bytes of the payload that are there, with what fills the last word.
    received: usize,
    /// Whether all that the peer has sent is read.
    drained: bool,
}

impl<B: Block> Shared<B> {
    pub(super) fn new(me: usize, size: usize, limit: usize, board: Board<B>, patience: Patience) -> Self {
        Self {
            me,
            limit,
            board,
            heard: Heard::new(me, size),
            incoming: (0..size).map(|_| Incoming::default()).collect(),
            falls: 0,
            fallen: Vec::new(),
            patience,
            lively: true,
            crowded: 0,
        }
    }

    pub(super) fn exchange(
        &mut self,
        posting: Posting<'_>,
        deadline: Duration,
        payloads: &mut [Vec<u8>],
    ) -> Result<(), GroupError> {
        let interest = Interest::Entry(posting.operation, posting.tag);
        let until = after(deadline);
        let frame = Words::of(posting.frame);
        let mut sent = 0;
        loop {
            sent += frame.put(&mut self.board, sent);
            self.pull();
            let is_sent = sent == frame.count();
            match self.heard.verdict(interest) {
                Some(Err(error)) => return Err(error),
                Some(Ok(())) if is_sent => break,
                Some(Ok(())) | None => {}
            }
            let want = if is_sent { Want::News } else { Want::Room };
            if !self.await_change(want, until) {
                return Err(self.late(deadline));
            }
        }
        self.heard.take_entries(payloads);
        Ok(())
    }

    pub(super) fn await_leader(&mut self, deadline: Duration) -> Result<bool, GroupError> {
        self.await_verdict(Interest::Leader, after(deadline))
    }

    /// Waits until it follows from what was heard how `interest` ends; `false` when it does not by `until`.
    fn await_verdict(&mut self, interest: Interest, until: Instant) -> Result<bool, GroupError> {
        loop {
            self.pull();
            if let Some(verdict) = self.heard.verdict(interest) {
                return verdict.map(|()| true);
            }
            if !self.await_change(Want::News, until) {
                return Ok(false);
            }
        }
    }

    pub(super) fn poison(&self, culprit: usize, last: Option<Tag>) {
        let culprit = u32::try_from(culprit).unwrap_or(u32::MAX);
        let header = Words::of(&Header::Poison { culprit, last }.encode()).header;
        self.board.poison(header.map(u64::from_le_bytes));
    }

    /// The error at the deadline: what a peer testifies; else that one has not entered; else that one does not read.
    fn late(&mut self, deadline: Duration) -> GroupError {
        if self.heard.misses_several()
            && let Err(error) = self.await_verdict(Interest::Testimony, after(TESTIMONY))
        {
            return error;
        }
        match self.board.slowest().filter(|_| self.heard.all_entered()) {
            Some(peer) => self.heard.stuck(peer, deadline),
            None => self.heard.missing(deadline),
        }
    }

    /// Waits for news of a peer, or for room if it is wanted; `false` when there is neither by `until`.
    fn await_change(&mut self, want: Want, until: Instant) -> bool {
        let started = Instant::now();
        let changed = self.look_out(want) || self.sleep(want, until);
        self.lively = started.elapsed() < LIVELY;
        changed
    }

    fn look_out(&mut self, want: Want) -> bool {
        if !self.lively {
            return false;
        }
        let spun = (0..self.patience.spins).any(|_| {
            std::hint::spin_loop();
            self.has_changed(want)
        });
        spun || self.give_way(want)
    }

    /// Looks with others let run in between, unless that has lately cost the core for long.
    fn give_way(&mut self, want: Want) -> bool {
        self.crowded = self.crowded.saturating_sub(1);
        for _ in 0..self.patience.yields {
            if self.crowded > 0 {
                return false;
            }
            let gave = Instant::now();
            thread::yield_now();
            if gave.elapsed() > CROWDED {
                self.crowded = CROWDED_WAITS;
            }
            if self.has_changed(want) {
                return true;
            }
        }
        false
    }

    fn sleep(&mut self, want: Want, until: Instant) -> bool {
        self.board.lie_down(want);
        let changed = self.has_changed(want);
        if !changed {
            self.board.sleep(want, until);
        }
        self.board.get_up();
        changed || self.has_changed(want) || Instant::now() < until
    }

    fn has_changed(&mut self, want: Want) -> bool {
        let room = match want {
            Want::News => false,
            Want::Room => self.board.room() > 0,
        };
        self.pull() || room
    }

    /// Takes in what the peers have published. Ends are looked at before what came ahead of them, and recorded after it.
    fn pull(&mut self) -> bool {
        let falls = self.board.falls();
        let mut news = false;
        for peer in 0..self.incoming.len() {
            if peer != self.me && !self.board.is_ended(peer) {
                let poison = self.board.poison_of(peer);
                news |= self.read(peer);
                if let Some(words) = poison.filter(|_| self.incoming[peer].drained) {
                    self.end(peer, poison_end(peer, words));
                    news = true;
                }
            }
        }
        news | self.note_falls(falls)
    }

    fn note_falls(&mut self, falls: usize) -> bool {
        let new = self.falls..falls;
        self.falls = falls.max(self.falls);
        self.fallen.extend(new.map(|index| self.board.fallen(index)));
        let is_over = |peer: &mut usize| self.board.is_ended(*peer) || self.incoming[*peer].drained;
        let over: Vec<usize> = self.fallen.extract_if(.., is_over).collect();
        for peer in &over {
            if !self.board.is_ended(*peer) {
                self.end(*peer, End::Closed);
            }
        }
        !over.is_empty()
    }

    /// Reads what `peer` has sent, as far as it may be ahead.
    fn read(&mut self, peer: usize) -> bool {
        let mut taken = 0;
        let unread = self.board.unread(peer).map_err(|_| GroupError::Malformed { rank: peer });
        let read = unread.and_then(|unread| {
            while taken < unread && !self.heard.is_full(peer) {
                taken += self.read_some(peer, taken, unread - taken)?;
            }
            Ok(taken == unread)
        });
        self.board.consume(peer, taken);
        match read {
            Ok(drained) => self.incoming[peer].drained = drained,
            Err(error) => self.end(peer, End::Failed(error)),
        }
        taken > 0 || self.board.is_ended(peer)
    }

    /// Reads up to `count` words of one frame, from the unread word `from` on; returns how many.
    fn read_some(&mut self, peer: usize, from: usize, count: usize) -> Result<usize, GroupError> {
        let incoming = &mut self.incoming[peer];
        let is_header = incoming.filled < HEADER_WORDS;
        let places = match is_header {
            true => &mut incoming.header[incoming.filled..],
            false => incoming.payload[incoming.received..].as_chunks_mut().0,
        };
        let taken = places.len().min(count);
        self.board.copy(peer, from, &mut places[..taken]);
        match is_header {
            true => incoming.filled += taken,
            false => incoming.received += taken * 8,
        }
        self.finish(peer)?;
        Ok(taken)
    }

    /// Takes note of a frame that is whole.
    fn finish(&mut self, peer: usize) -> Result<(), GroupError> {
        let incoming = &mut self.incoming[peer];
        if incoming.filled < HEADER_WORDS {
            return Ok(());
        }
        let (operation, tag, length) = entry(peer, incoming.header)?;
        if length > self.limit {
            return Err(GroupError::Oversize { rank: peer, length, limit: self.limit });
        }
        let padded = length.next_multiple_of(8);
        if incoming.payload.len() != padded {
            incoming.payload = self.heard.spare(peer);
            incoming.payload.resize(padded, 0);
        }
        if incoming.received < padded {
            return Ok(());
        }
        let mut payload = std::mem::take(&mut incoming.payload);
        payload.truncate(length);
        (incoming.filled, incoming.received) = (0, 0);
        self.heard.enter(peer, Entry { operation, tag, payload });
        Ok(())
    }

    fn end(&mut self, peer: usize, end: End) {
        self.board.end(peer);
        self.heard.end(peer, end);
    }
}

/// What a header in a ring says.
fn entry(
    peer: usize,
    header: [[u8; 8]; HEADER_WORDS],
) -> Result<(crate::group::Operation, Tag, usize), GroupError> {
    match decode(header) {
        Some(Header::Entry { operation, tag, length }) => {
            Ok((operation, tag, usize::try_from(length).unwrap_or(usize::MAX)))
        }
        Some(Header::Poison { .. }) | None => Err(GroupError::Malformed { rank: peer }),
    }
}

fn poison_end(peer: usize, words: [u64; POISON_WORDS]) -> End {
    match decode(words.map(u64::to_le_bytes)) {
        Some(Header::Poison { culprit, last }) => {
            End::Poison { culprit: usize::try_from(culprit).unwrap_or(usize::MAX), last }
        }
        Some(Header::Entry { .. }) | None => End::Failed(GroupError::Malformed { rank: peer }),
    }
}

fn decode(header: [[u8; 8]; HEADER_WORDS]) -> Option<Header> {
    Header::decode(header.as_flattened().first_chunk()?)
}

/// A frame as words: the header and the payload, each filled up with zeros.
struct Words<'a> {
    header: [[u8; 8]; HEADER_WORDS],
    payload: &'a [[u8; 8]],
    last: Option<[u8; 8]>,
}

impl<'a> Words<'a> {
    fn of(frame: &'a [u8]) -> Self {
        let (head, rest) = frame.split_at(HEADER_BYTES.min(frame.len()));
        let (payload, rest) = rest.as_chunks();
        let mut header = [[0; 8]; HEADER_WORDS];
        header.as_flattened_mut()[..head.len()].copy_from_slice(head);
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        Self { header, payload, last: (!rest.is_empty()).then_some(last) }
    }

    fn count(&self) -> usize {
        HEADER_WORDS + self.payload.len() + usize::from(self.last.is_some())
    }

    /// Puts what follows the first `sent` words into the ring, as far as there is room, and shows it; returns how many words that is.
    fn put<B: Block>(&self, board: &mut Board<B>, sent: usize) -> usize {
        let mut skip = sent;
        let mut put = 0;
        for part in [self.header.as_slice(), self.payload, self.last.as_slice()] {
            let left = &part[skip.min(part.len())..];
            skip -= part.len() - left.len();
            let count = board.put(left);
            put += count;
            if count < left.len() {
                break;
            }
        }
        board.publish();
        put
    }
}
