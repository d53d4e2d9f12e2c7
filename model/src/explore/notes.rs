//! What the steps of an exploration covered: a set of indices into the list of a model.

use std::io::{self, Read, Write};

use super::snapshot::{Store, load_all, store_all, unfit};

/// Most points that a model may list.
pub const MOST_NOTES: usize = 64 * WORDS;
const WORDS: usize = 4;

/// A set of points, by their indices in [`super::Explorable::points`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes([u64; WORDS]);

impl Notes {
    /// Notes a point; one beyond the list is not kept.
    pub fn note(&mut self, point: usize) {
        if let Some(word) = self.0.get_mut(point / 64) {
            *word |= 1 << (point % 64);
        }
    }

    /// Whether a point was noted.
    #[must_use]
    pub fn noted(&self, point: usize) -> bool {
        self.0.get(point / 64).is_some_and(|word| word & (1 << (point % 64)) != 0)
    }

    /// Adds what others noted.
    pub fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// What [`Store::store`] wrote.
    pub(crate) fn load(input: &mut dyn Read) -> io::Result<Self> {
        let words = load_all(input)?.try_into();
        words.map(Self).map_err(|_| unfit("its notes are not of this length"))
    }
}

impl Store for Notes {
    fn store(&self, out: &mut dyn Write) -> io::Result<()> {
        store_all(out, WORDS, self.0.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_join() {
        let mut notes = Notes::default();
        notes.note(3);
        let mut other = Notes::default();
        [0, 200, MOST_NOTES].into_iter().for_each(|point| other.note(point));
        notes.join(&other);
        let noted: Vec<usize> = (0..=MOST_NOTES).filter(|point| notes.noted(*point)).collect();
        assert_eq!(noted, [0, 3, 200]);
    }
}
