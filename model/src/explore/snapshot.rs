//! A search as bytes, between two blocks of its frontier, and the way back.
//!
//! ```text
//!  Search ──Snapshot::write──▶ tally │ trails │ graph │ seen ──load──▶ Search, its frontier revived by replay
//! ```
//!
//! States are not written: a model's states need no form on disk. Each has an origin, its parent's id and an action, so the states of the
//! frontier are made again by replaying the ways that lead to them and to nothing else. Words are little-endian, lists have their length
//! before them. Where the bytes go, and what guards them against damage, is the [`Keeper`]'s matter.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::search::Counts;

/// Words that are written or read at once.
const BATCH: usize = 1 << 12;

/// Where a search is kept, so that it can go on later, in another process.
pub trait Keeper: Debug + Sync {
    /// The bytes of the snapshot to go on from; `None` to start anew. Called once, when the search starts.
    ///
    /// # Errors
    /// Whatever keeps them from being read.
    fn resume(&self) -> io::Result<Option<Box<dyn Read>>>;

    /// Whether a snapshot is to be kept now.
    fn is_due(&self) -> bool;

    /// Keeps a snapshot: one that is due, or the one with which the search is given up. Failing to is the keeper's to tell.
    fn keep(&self, snapshot: &Snapshot<'_>);
}

/// What was done of a search before it was resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// Distinct states that were known.
    pub states: u64,
    /// Time that was spent.
    pub seconds: f64,
}

/// A search between two blocks of its frontier.
pub struct Snapshot<'a> {
    /// How far the search is.
    pub counts: Counts,
    /// Time spent on it by all processes so far.
    pub elapsed: Duration,
    pub(crate) parts: [&'a dyn Store; 4],
}

impl Snapshot<'_> {
    /// Writes the whole search.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.parts.iter().try_for_each(|part| part.store(out))
    }
}

/// A part of a search that can be written.
pub(crate) trait Store {
    fn store(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// A part that a search can be without.
impl<T: Store> Store for Option<T> {
    fn store(&self, out: &mut dyn Write) -> io::Result<()> {
        u32::from(self.is_some()).put(out)?;
        self.as_ref().map_or(Ok(()), |part| part.store(out))
    }
}

/// A number of fixed width.
pub(crate) trait Word: Copy + Sized {
    fn append(self, bytes: &mut Vec<u8>);

    fn get(input: &mut dyn Read) -> io::Result<Self>;

    fn put(self, out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.append(&mut bytes);
        out.write_all(&bytes)
    }
}

macro_rules! word {
    ($($number:ty),*) => {$(
        impl Word for $number {
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn get(input: &mut dyn Read) -> io::Result<Self> {
                let mut bytes = [0; size_of::<$number>()];
                input.read_exact(&mut bytes)?;
                Ok(Self::from_le_bytes(bytes))
            }
        }
    )*};
}

word!(u32, u64, u128);

/// A pair is two words.
impl<A: Word, B: Word> Word for (A, B) {
    fn append(self, bytes: &mut Vec<u8>) {
        self.0.append(bytes);
        self.1.append(bytes);
    }

    fn get(input: &mut dyn Read) -> io::Result<Self> {
        Ok((A::get(input)?, B::get(input)?))
    }
}

/// Writes a list of `length` words.
pub(crate) fn store_all<W: Word>(
    out: &mut dyn Write,
    length: usize,
    words: impl Iterator<Item = W>,
) -> io::Result<()> {
    (length as u64).put(out)?;
    let mut bytes = Vec::new();
    for word in words {
        word.append(&mut bytes);
        if bytes.len() >= BATCH * size_of::<W>() {
            out.write_all(&bytes)?;
            bytes.clear();
        }
    }
    out.write_all(&bytes)
}

/// Hands each word of a list to `take`. Nothing is set aside for a length that the input does not keep.
pub(crate) fn load_each<W: Word>(
    input: &mut dyn Read,
    take: &mut dyn FnMut(W) -> io::Result<()>,
) -> io::Result<()> {
    let length = u64::get(input)?;
    (0..length).try_for_each(|_| take(W::get(input)?))
}

/// Reads a list of words.
pub(crate) fn load_all<W: Word>(input: &mut dyn Read) -> io::Result<Vec<W>> {
    let mut words = Vec::new();
    load_each(input, &mut |word| {
        words.push(word);
        Ok(())
    })?;
    Ok(words)
}

/// The complaint about bytes that no search has written.
pub(crate) fn unfit(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
