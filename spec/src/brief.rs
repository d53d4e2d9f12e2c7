//! The brief: what only the leader knows, frozen when it posts its vote. Finish verdicts go first and are never cut; then new requests
//! in acceptance order; then aborts. On the wire it is 64-bit words: the word on pausing, then each list behind its length.

use crate::agreed::Words;
use crate::fault::Fault;
use crate::ids::RequestId;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;

/// A request as a group is told of it.
pub trait Arrival: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// Words of the encoding.
    fn words(&self) -> usize;

    /// Appends exactly [`Arrival::words`] words.
    fn encode(&self, words: &mut Words);

    /// Reads what `encode` wrote, all of it; `None` if a word is out of range, or there are too few or too many.
    fn decode(words: &[u64]) -> Option<Self>;
}

/// What the word on pausing says, by its value.
const PAUSES: [Option<bool>; 3] = [None, Some(false), Some(true)];

/// Finish verdicts of one retired forward: for each row of its plan, whether its token ends the output.
pub type Verdicts = Vec<bool>;

/// The leader's brief.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Brief<A> {
    /// Whether the group is to launch nothing (`true`), or to go on (`false`).
    pub pause: Option<bool>,
    /// For each forward that the leader retired since its last brief, in order.
    pub verdicts: Vec<Verdicts>,
    /// New requests, in acceptance order; no more than slots are free.
    pub arrivals: Vec<A>,
    /// Requests to abort; unknown ids are ignored.
    pub aborts: Vec<RequestId>,
}

impl<A: Arrival> Brief<A> {
    /// A brief that says nothing; it is not sent.
    #[must_use]
    pub fn empty() -> Self {
        Self { pause: None, verdicts: Vec::new(), arrivals: Vec::new(), aborts: Vec::new() }
    }

    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pause.is_none() && self.verdicts.is_empty() && self.arrivals.is_empty() && self.aborts.is_empty()
    }

    /// Words of the encoding of this brief, if there is something to say.
    #[must_use]
    pub fn words(&self) -> usize {
        let rows: usize = self.verdicts.iter().map(|rows| 1 + rows.len()).sum();
        let arrivals: usize = self.arrivals.iter().map(Self::words_of).sum();
        4 + rows + arrivals + self.aborts.len()
    }

    /// Words that an arrival takes.
    pub(crate) fn words_of(arrival: &A) -> usize {
        1 + arrival.words()
    }

    /// The words to broadcast; none if there is nothing to say.
    #[must_use]
    pub fn encode(&self) -> Words {
        if self.is_empty() {
            return Words::new();
        }
        let mut words = Words::with_capacity(self.words());
        words.push(PAUSES.iter().take_while(|pause| **pause != self.pause).count() as u64);
        words.push(self.verdicts.len() as u64);
        for rows in &self.verdicts {
            words.push(rows.len() as u64);
            words.extend(rows.iter().map(|finished| u64::from(*finished)));
        }
        words.push(self.arrivals.len() as u64);
        for arrival in &self.arrivals {
            words.push(arrival.words() as u64);
            arrival.encode(&mut words);
        }
        words.push(self.aborts.len() as u64);
        words.extend(self.aborts.iter().map(|request| request.0));
        words
    }

    /// Reads a broadcast brief.
    ///
    /// # Errors
    /// [`Fault::BadBrief`] if the words are not what [`Brief::encode`] writes.
    pub fn decode(words: &[u64]) -> Result<Self, Fault> {
        if words.is_empty() {
            return Ok(Self::empty());
        }
        let mut reader = Reader(words);
        let pause = usize::try_from(reader.word()?).ok().and_then(|word| PAUSES.get(word)).copied();
        let pause = pause.ok_or(Fault::BadBrief("its word on pausing is out of range"))?;
        let mut verdicts = Vec::new();
        for _ in 0..reader.length()? {
            let rows = reader.length()?;
            verdicts.push(reader.take(rows)?.iter().map(|word| *word != 0).collect());
        }
        let mut arrivals = Vec::new();
        for _ in 0..reader.length()? {
            let length = reader.length()?;
            let arrival = A::decode(reader.take(length)?);
            arrivals.push(arrival.ok_or(Fault::BadBrief("an arrival has a value out of range"))?);
        }
        let aborts = reader.length()?;
        let aborts = reader.take(aborts)?.iter().map(|word| RequestId(*word)).collect();
        if !reader.0.is_empty() {
            return Err(Fault::BadBrief("words follow its end"));
        }
        Ok(Self { pause, verdicts, arrivals, aborts })
    }
}

struct Reader<'a>(&'a [u64]);

impl<'a> Reader<'a> {
    fn take(&mut self, words: usize) -> Result<&'a [u64], Fault> {
        let (taken, rest) = self.0.split_at_checked(words).ok_or(Fault::BadBrief("it ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u64, Fault> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    /// A length; each listed item has at least one word, so no length beyond the rest is believed.
    fn length(&mut self) -> Result<usize, Fault> {
        usize::try_from(self.word()?)
            .ok()
            .filter(|length| *length <= self.0.len())
            .ok_or(Fault::BadBrief("a length exceeds it"))
    }
}
