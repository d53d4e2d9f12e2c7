//! The line through shared memory under every interleaving, and every stale value that the memory model allows: loom runs the shipped
//! `Shared` over blocks of its own atomics. Bounded to executions with few preemptions; LOCKSTEP_LOOM_PREEMPTIONS raises the bound.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex as Plain};
use std::time::{Duration, Instant};

use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::sync::{Condvar, Mutex};

use super::board::{Block, Board, Layout, Ordering, fall};
use super::line::{Patience, Shared};
use crate::group::error::GroupError;
use crate::group::frame::{Header, Operation};
use crate::group::line::Posting;
use crate::group::tag::Tag;

const RANKS: usize = 2;
const ROUNDS: u64 = 2;
const FOREVER: Duration = Duration::from_secs(3600);
/// A ring that holds a frame of these tests, and one that it goes through in pieces.
const WIDE: usize = 8;
const NARROW: usize = 4;

/// A defect that loom must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The count is stored without `Release`.
    RelaxedCount,
    /// The count is stored before the words that it covers.
    CountFirst,
    /// Nothing orders a publication against the look at the bell, nor lying down against the last look.
    NoFence,
    /// A sleeper does not compare its bell.
    BlindSleep,
    /// Nobody is woken.
    NoWake,
}

/// A block whose every access is a step that loom may interleave.
#[derive(Debug)]
struct Stepped {
    words: Vec<AtomicU64>,
    bell: AtomicU32,
    sleeper: Mutex<()>,
    woken: Condvar,
    flaw: Option<Flaw>,
    delayed: Plain<Vec<(usize, u64)>>,
}

thread_local! {
    /// Accesses that the running rank may still make before it dies.
    static LIFE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// What unwinds a rank that dies.
struct Died;

fn live() {
    match LIFE.get() {
        Some(0) => {
            LIFE.set(None);
            resume_unwind(Box::new(Died));
        }
        Some(left) => LIFE.set(Some(left - 1)),
        None => {}
    }
}

impl Stepped {
    fn new(capacity: usize, flaw: Option<Flaw>) -> Self {
        Self {
            words: (0..Layout::new(RANKS).words(capacity)).map(|_| AtomicU64::new(0)).collect(),
            bell: AtomicU32::new(0),
            sleeper: Mutex::new(()),
            woken: Condvar::new(),
            flaw,
            delayed: Plain::default(),
        }
    }
}

impl Block for Stepped {
    fn words(&self) -> usize {
        self.words.len()
    }

    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.words[word].load(order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        let is_count = word == 0;
        match self.flaw {
            Some(Flaw::RelaxedCount) if is_count => self.words[word].store(value, Ordering::Relaxed),
            Some(Flaw::CountFirst) if is_count => {
                self.words[word].store(value, order);
                let delayed = std::mem::take(&mut *self.delayed.lock().unwrap());
                delayed
                    .into_iter()
                    .for_each(|(word, value)| self.words[word].store(value, Ordering::Release));
            }
            Some(Flaw::CountFirst) => self.delayed.lock().unwrap().push((word, value)),
            Some(_) | None => self.words[word].store(value, order),
        }
    }

    fn fence(&self) {
        if self.flaw != Some(Flaw::NoFence) {
            fence(Ordering::SeqCst);
        }
    }

    fn bell(&self) -> u32 {
        self.bell.load(Ordering::Relaxed)
    }

    fn set_bell(&self, bell: u32) -> u32 {
        self.bell.swap(bell, Ordering::AcqRel)
    }

    fn sleep(&self, bell: u32, _until: Instant) {
        let guard = self.sleeper.lock().unwrap();
        if self.flaw == Some(Flaw::BlindSleep) || self.bell.load(Ordering::Relaxed) == bell {
            drop(self.woken.wait(guard).unwrap());
        }
    }

    fn wake(&self) {
        if self.flaw != Some(Flaw::NoWake) {
            drop(self.sleeper.lock().unwrap());
            self.woken.notify_all();
        }
    }
}

/// A block as the rank that may die reaches it.
#[derive(Debug)]
struct Mortal(Arc<Stepped>);

impl Block for Mortal {
    fn words(&self) -> usize {
        self.0.words()
    }

    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0.load(word, order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        live();
        self.0.store(word, value, order);
    }

    fn fence(&self) {
        self.0.fence();
    }

    fn bell(&self) -> u32 {
        self.0.bell()
    }

    fn set_bell(&self, bell: u32) -> u32 {
        live();
        self.0.set_bell(bell)
    }

    fn sleep(&self, bell: u32, until: Instant) {
        self.0.sleep(bell, until);
    }

    fn wake(&self) {
        live();
        self.0.wake();
    }
}

fn tag(round: u64) -> Tag {
    Tag { epoch: 1, round, site: 0, kind: 0, shape: 1 }
}

fn word(rank: usize, round: u64) -> [u8; 8] {
    (1000 * (rank as u64 + 1) + round).to_le_bytes()
}

fn line<B: Block>(rank: usize, blocks: Vec<Arc<B>>) -> Shared<B> {
    let board = Board::new(rank, blocks).unwrap();
    Shared::new(rank, RANKS, 8, board, Patience { spins: 0, yields: 0 })
}

/// Enters one collective; the peer's word.
fn enter<B: Block>(line: &mut Shared<B>, rank: usize, tag: Tag) -> Result<Vec<u8>, GroupError> {
    let header = Header::Entry { operation: Operation::Min, tag, length: 8 }.encode();
    let frame = [header.as_slice(), &word(rank, tag.round)].concat();
    let mut payloads = vec![Vec::new(); RANKS];
    let posting = Posting { operation: Operation::Min, tag, frame: &frame };
    let done = line.exchange(posting, FOREVER, &mut payloads);
    if let Err(error) = &done {
        let (culprit, last) = error.culprit(rank);
        line.poison(culprit, last);
    }
    done.map(|()| payloads.swap_remove(1 - rank))
}

/// Goes through all rounds; every word must be the peer's of that round.
fn rounds<B: Block>(line: &mut Shared<B>, rank: usize) -> Result<(), GroupError> {
    for round in 0..ROUNDS {
        assert_eq!(enter(line, rank, tag(round))?, word(1 - rank, round), "torn or stale");
    }
    Ok(())
}

fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let raised = std::env::var("LOCKSTEP_LOOM_PREEMPTIONS").ok().map(|bound| bound.parse().unwrap());
    builder.preemption_bound = Some(raised.unwrap_or(preemptions));
    builder.max_branches = 10_000;
    builder.check(body);
}

fn blocks(capacity: usize, flaw: Option<Flaw>) -> Vec<Arc<Stepped>> {
    (0..RANKS).map(|_| Arc::new(Stepped::new(capacity, flaw))).collect()
}

fn two_rounds(preemptions: usize, capacity: usize, flaw: Option<Flaw>) {
    explore(preemptions, move || {
        let blocks = blocks(capacity, flaw);
        let theirs = blocks.clone();
        let peer = loom::thread::spawn(move || rounds(&mut line(1, theirs), 1).unwrap());
        rounds(&mut line(0, blocks), 0).unwrap();
        peer.join().unwrap();
    });
}

#[test]
fn shared_rounds_complete_with_the_right_words() {
    two_rounds(2, WIDE, None);
}

#[test]
fn shared_frames_longer_than_the_ring_go_through_in_pieces() {
    two_rounds(1, NARROW, None);
}

#[test]
fn shared_mismatch_is_named_by_both() {
    explore(3, || {
        let blocks = blocks(WIDE, None);
        let theirs = blocks.clone();
        let odd = Tag { shape: 2, ..tag(0) };
        let peer = loom::thread::spawn(move || enter(&mut line(1, theirs), 1, odd).unwrap_err());
        let named = |error: &GroupError| {
            matches!(error, GroupError::Mismatch { .. } | GroupError::Relayed { last: Some(_), .. })
        };
        let ours = enter(&mut line(0, blocks), 0, tag(0)).unwrap_err();
        let theirs = peer.join().unwrap();
        assert!(named(&ours) && named(&theirs), "{ours} {theirs}");
    });
}

/// Rank 1 dies before its `life`-th store; whether it did.
fn dies_after(life: u32) -> bool {
    let died = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&died);
    explore(1, move || {
        let blocks = blocks(WIDE, None);
        let (survivor, theirs) = (Arc::clone(&blocks[0]), blocks.clone());
        let told = Arc::clone(&told);
        let peer = loom::thread::spawn(move || {
            let mut line = line(1, theirs.into_iter().map(|block| Arc::new(Mortal(block))).collect());
            LIFE.set(Some(life));
            let ended = catch_unwind(AssertUnwindSafe(|| rounds(&mut line, 1)));
            LIFE.set(None);
            told.fetch_or(ended.is_err_and(|end| end.is::<Died>()), Ordering::Relaxed);
            fall(survivor.as_ref(), Layout::new(RANKS), 1);
        });
        match rounds(&mut line(0, blocks), 0) {
            Ok(()) | Err(GroupError::Gone { rank: 1, .. }) => {}
            Err(error) => panic!("{error}"),
        }
        peer.join().unwrap();
    });
    died.load(Ordering::Relaxed)
}

#[test]
fn shared_death_at_any_store_leaves_nobody_waiting() {
    let lived = (0..200).find(|&life| !dies_after(life));
    assert!(lived.is_some_and(|stores| stores > 10), "{lived:?}");
}

#[test]
#[should_panic(expected = "Malformed")]
fn shared_count_without_release_is_found() {
    two_rounds(2, WIDE, Some(Flaw::RelaxedCount));
}

#[test]
#[should_panic(expected = "Malformed")]
fn shared_count_before_its_words_is_found() {
    two_rounds(2, WIDE, Some(Flaw::CountFirst));
}

#[test]
#[should_panic(expected = "deadlock")]
fn shared_look_at_the_bell_without_a_fence_is_found() {
    two_rounds(2, WIDE, Some(Flaw::NoFence));
}

#[test]
#[should_panic(expected = "deadlock")]
fn shared_sleep_without_a_look_at_the_bell_is_found() {
    two_rounds(2, WIDE, Some(Flaw::BlindSleep));
}

#[test]
#[should_panic(expected = "deadlock")]
fn shared_sleeper_that_nobody_wakes_is_found() {
    two_rounds(2, WIDE, Some(Flaw::NoWake));
}
