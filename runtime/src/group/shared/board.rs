//! The words of the ranks' blocks, and the order in which they are written and read.
//!
//! Two rules make it correct. *Payload first*: words of a ring are stored before the count that covers them, which is stored with
//! `Release` and loaded with `Acquire`; the same holds for a poison and for a fall. *Bell after a fence*: who publishes stores, fences, and
//! then looks whether a peer sleeps; who goes to sleep sets its bell, fences, and then looks once more for news. So one of the two sees the
//! other, and no wake-up is lost.

use std::cmp::Reverse;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

pub(super) use std::sync::atomic::Ordering;

/// Words of a cache line with its neighbour, which a processor fetches together: what has different writers is that far apart.
pub(super) const LINE: usize = 16;

/// The count of words that the owner has ever put into its ring.
const SENT: usize = 0;
/// Whether the owner has failed the group; the words of the poison follow.
const POISON: usize = LINE;
/// How many peers the owner's watch has seen fall.
const FALLS: usize = 2 * LINE;
/// For each rank, how many words of its ring the owner has read.
const READ: usize = 3 * LINE;

/// Words of a poison.
pub(super) const POISON_WORDS: usize = 5;

/// The owner is awake.
const AWAKE: u32 = 0;

/// What a rank sleeps for. Any news wakes it in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// For news of a peer.
    News,
    /// For room in its own ring too, which a reading peer makes.
    Room,
}

impl Want {
    const fn bell(self) -> u32 {
        match self {
            Self::News => 1,
            Self::Room => 2,
        }
    }
}

/// One rank's block of shared memory: words, and a bell that its owner sleeps on.
pub(super) trait Block: Debug + Send + Sync {
    /// How many words it has.
    fn words(&self) -> usize;
    /// Loads a word.
    fn load(&self, word: usize, order: Ordering) -> u64;
    /// Stores a word.
    fn store(&self, word: usize, value: u64, order: Ordering);
    /// Orders what this thread did before against what it does after, for all threads.
    fn fence(&self);
    /// What the bell shows.
    fn bell(&self) -> u32;
    /// Sets the bell and returns what it showed.
    fn set_bell(&self, bell: u32) -> u32;
    /// Sleeps until somebody wakes it, unless the bell shows something else than `bell`, until `until` at most.
    fn sleep(&self, bell: u32, until: Instant);
    /// Wakes the owner.
    fn wake(&self);
}

/// Where the words of a block of a group of `ranks` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    ranks: usize,
}

impl Layout {
    pub(super) fn new(ranks: usize) -> Self {
        Self { ranks }
    }

    fn read(self, rank: usize) -> usize {
        READ + rank * LINE
    }

    fn fall(self, index: usize) -> usize {
        READ + self.ranks * LINE + index
    }

    fn ring(self) -> usize {
        self.fall(self.ranks).next_multiple_of(LINE)
    }

    /// Words of a block whose ring has `capacity`, a power of two.
    pub(super) fn words(self, capacity: usize) -> usize {
        self.ring() + capacity
    }

    /// The capacity of the ring of a block of so many words, if there can be such a block.
    pub(super) fn capacity(self, words: usize) -> Option<usize> {
        words.checked_sub(self.ring()).filter(|capacity| capacity.is_power_of_two())
    }
}

/// A peer's count went where it can not go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unruly;

/// The blocks of all ranks, as one of them sees them.
#[derive(Debug)]
pub(super) struct Board<B> {
    me: usize,
    layout: Layout,
    blocks: Vec<Arc<B>>,
    /// By rank: one less than the capacity of its ring, a power of two.
    masks: Vec<u64>,
    /// Words put into the own ring, and how many of them the peers have been shown.
    sent: u64,
    published: u64,
    /// By rank: words read from its ring.
    read: Vec<u64>,
    /// By rank: whether it is waited for no longer.
    ended: Vec<bool>,
}

impl<B: Block> Board<B> {
    /// The board of rank `me`; `None` if a block has a size that no block has.
    pub(super) fn new(me: usize, blocks: Vec<Arc<B>>) -> Option<Self> {
        let layout = Layout::new(blocks.len());
        let mask = |block: &Arc<B>| Some(u64::try_from(layout.capacity(block.words())?).ok()? - 1);
        let masks = blocks.iter().map(mask).collect::<Option<Vec<_>>>()?;
        let size = blocks.len();
        Some(Self {
            me,
            layout,
            blocks,
            masks,
            sent: 0,
            published: 0,
            read: vec![0; size],
            ended: vec![false; size],
        })
    }

    /// The peers that are not at their end.
    pub(super) fn peers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.blocks.len()).filter(|&rank| rank != self.me && !self.ended[rank])
    }

    /// Whether nothing more is expected of `rank`.
    pub(super) fn is_ended(&self, rank: usize) -> bool {
        self.ended[rank]
    }

    /// Waits for `rank` no longer.
    pub(super) fn end(&mut self, rank: usize) {
        self.ended[rank] = true;
    }

    /// Words for which there is room in the own ring.
    pub(super) fn room(&self) -> u64 {
        let capacity = self.masks[self.me] + 1;
        let read = |peer: usize| self.blocks[peer].load(self.layout.read(self.me), Acquire);
        let unread = self.peers().map(|peer| self.sent.wrapping_sub(read(peer))).max().unwrap_or(0);
        capacity.saturating_sub(unread)
    }

    /// The peer that is furthest behind with the own ring; one that claims to be ahead of it is further than any.
    pub(super) fn slowest(&self) -> Option<usize> {
        let unread = |peer: &usize| {
            self.sent.wrapping_sub(self.blocks[*peer].load(self.layout.read(self.me), Relaxed))
        };
        self.peers().min_by_key(|peer| Reverse(unread(peer)))
    }

    /// Puts as many of `words` into the own ring as there is room for, and returns how many. They are there for the peers once they are
    /// published.
    pub(super) fn put(&mut self, words: &[[u8; 8]]) -> usize {
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        let words = &words[..words.len().min(room)];
        let (own, ring, mask) = (self.own(), self.layout.ring(), self.masks[self.me]);
        for (word, count) in words.iter().zip(self.sent..) {
            own.store(ring + index(count & mask), u64::from_le_bytes(*word), Relaxed);
        }
        self.sent += words.len() as u64;
        words.len()
    }

    /// Shows the peers what was put into the own ring.
    pub(super) fn publish(&mut self) {
        if self.sent > self.published {
            self.published = self.sent;
            self.own().store(SENT, self.sent, Release);
            self.ring_peers();
        }
    }

    /// Words in the ring of `rank` that this rank has not read.
    pub(super) fn unread(&self, rank: usize) -> Result<usize, Unruly> {
        let unread = self.blocks[rank].load(SENT, Acquire).wrapping_sub(self.read[rank]);
        if unread > self.masks[rank] + 1 { Err(Unruly) } else { usize::try_from(unread).map_err(|_| Unruly) }
    }

    /// Copies unread words of `rank`, the first of them `skip` after the oldest, into all of `places`.
    pub(super) fn copy(&self, rank: usize, skip: usize, places: &mut [[u8; 8]]) {
        let (block, ring, mask) = (self.blocks[rank].as_ref(), self.layout.ring(), self.masks[rank]);
        for (place, count) in places.iter_mut().zip(self.read[rank] + skip as u64..) {
            *place = block.load(ring + index(count & mask), Relaxed).to_le_bytes();
        }
    }

    /// Gives `rank` the room of so many words back.
    pub(super) fn consume(&mut self, rank: usize, count: usize) {
        if count == 0 {
            return;
        }
        self.read[rank] += count as u64;
        self.own().store(self.layout.read(rank), self.read[rank], Release);
        self.own().fence();
        if self.blocks[rank].bell() == Want::Room.bell() {
            ring(self.blocks[rank].as_ref());
        }
    }

    /// Tells all peers that the group has failed.
    pub(super) fn poison(&self, words: [u64; POISON_WORDS]) {
        for (index, word) in words.into_iter().enumerate() {
            self.own().store(POISON + 1 + index, word, Relaxed);
        }
        self.own().store(POISON, 1, Release);
        self.ring_peers();
    }

    /// What `rank` said when it failed the group, if it has. All that it sent before is there to be read.
    pub(super) fn poison_of(&self, rank: usize) -> Option<[u64; POISON_WORDS]> {
        let block = &self.blocks[rank];
        (block.load(POISON, Acquire) != 0)
            .then(|| std::array::from_fn(|index| block.load(POISON + 1 + index, Relaxed)))
    }

    /// How many peers have fallen. All that they sent before is there to be read.
    pub(super) fn falls(&self) -> usize {
        usize::try_from(self.own().load(FALLS, Acquire)).map_or(0, |falls| falls.min(self.blocks.len()))
    }

    /// The rank that fell as the `index`-th. Peers can write here as the watch does: what names no rank counts as this one, which is past
    /// caring.
    pub(super) fn fallen(&self, index: usize) -> usize {
        let rank = usize::try_from(self.own().load(self.layout.fall(index), Relaxed)).ok();
        rank.filter(|rank| *rank < self.blocks.len()).unwrap_or(self.me)
    }

    /// Announces that this rank is about to sleep. It must look for what it wants once more before it does.
    pub(super) fn lie_down(&self, want: Want) {
        self.own().set_bell(want.bell());
        self.own().fence();
    }

    /// Sleeps, unless the bell has been rung since it lay down.
    pub(super) fn sleep(&self, want: Want, until: Instant) {
        self.own().sleep(want.bell(), until);
    }

    /// Announces that this rank is awake.
    pub(super) fn get_up(&self) {
        self.own().set_bell(AWAKE);
    }

    fn own(&self) -> &B {
        &self.blocks[self.me]
    }

    fn ring_peers(&self) {
        self.own().fence();
        self.peers().for_each(|peer| ring(self.blocks[peer].as_ref()));
    }
}

/// A place in a ring: less than the number of its words, which is a usize.
fn index(place: u64) -> usize {
    usize::try_from(place).unwrap_or(0)
}

/// Wakes the owner of `block` if it sleeps. To be called after a fence. Who takes the bell is the one who wakes: if it is held up before it
/// does, the owner's deadline ends the sleep, and if it dies, the owner's watch does.
fn ring<B: Block>(block: &B) {
    if block.bell() != AWAKE && block.set_bell(AWAKE) != AWAKE {
        block.wake();
    }
}

/// Notes in a rank's own block that a peer has fallen, and wakes it. One thread may do so, and only that one.
///
/// It wakes the rank whatever its bell shows: the peer may have died when it had taken the bell and had not woken anybody yet.
pub(super) fn fall<B: Block>(own: &B, layout: Layout, rank: usize) {
    let count = own.load(FALLS, Relaxed);
    let index = usize::try_from(count).map_or(0, |index| index.min(layout.ranks - 1));
    own.store(layout.fall(index), rank as u64, Relaxed);
    own.store(FALLS, count + 1, Release);
    own.fence();
    own.set_bell(AWAKE);
    own.wake();
}
