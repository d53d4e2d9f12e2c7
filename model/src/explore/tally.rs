//! What a search counts and notes as it goes.

use std::io::{self, Read, Write};
use std::time::Duration;

use stateright::{Expectation, Property};

use super::expand::Harvest;
use super::model::Explorable;
use super::notes::Notes;
use super::search::Counts;
use super::snapshot::{Store, Word, load_all, store_all};

/// Counts and notes of a search, up to a block of its frontier.
#[derive(Default)]
pub(crate) struct Tally {
    /// Number of states at each distance from the initial ones, as far as all of them were found.
    pub(crate) levels: Vec<u64>,
    /// States that were expanded; they have the first ids.
    pub(crate) expanded: u32,
    /// Steps taken.
    pub(crate) transitions: u64,
    /// Steps that led outside of the boundary.
    pub(crate) cut: u64,
    /// Expanded states that are between rounds.
    pub(crate) between_rounds: u64,
    /// Bit k: `sometimes` property k was witnessed.
    pub(crate) witnessed: u64,
    /// Bit k: an action of kind k was taken.
    pub(crate) fired: u128,
    /// What the steps covered.
    pub(crate) notes: Notes,
    /// Time that was spent before the search was resumed.
    pub(crate) earlier: Duration,
}

impl Tally {
    /// Adds what a chunk yielded.
    pub(crate) fn add(&mut self, harvest: &Harvest) {
        self.transitions += harvest.transitions;
        self.cut += harvest.cut;
        self.between_rounds += harvest.between_rounds;
        self.witnessed |= harvest.witnessed;
        self.fired |= harvest.fired;
        self.notes.join(&harvest.notes);
    }

    /// The counts, with `unique` states.
    pub(crate) fn counts(&self, unique: usize) -> Counts {
        let depth = u32::try_from(self.levels.len().saturating_sub(1)).unwrap_or(u32::MAX);
        Counts { unique: unique as u64, transitions: self.transitions, depth }
    }

    /// The id after those of the level that is being expanded.
    pub(crate) fn level_end(&self) -> u32 {
        u32::try_from(self.levels.iter().fold(0u64, |sum, level| sum.saturating_add(*level)))
            .unwrap_or(u32::MAX)
    }

    /// The witnesses and kinds of action that were reached, and those that were not.
    pub(crate) fn witnesses<M: Explorable>(
        &self,
        model: &M,
        properties: &[Property<M>],
    ) -> (Vec<String>, Vec<String>) {
        let sometimes = |(index, property): (usize, &Property<M>)| {
            let witnessed = self.witnessed & (1 << index) != 0;
            matches!(property.expectation, Expectation::Sometimes)
                .then(|| (property.name.to_owned(), witnessed))
        };
        let fired = |(index, kind): (usize, &str)| (format!("action {kind}"), self.fired & (1 << index) != 0);
        let witnesses = properties.iter().enumerate().filter_map(sometimes);
        let all = witnesses.chain(model.kinds().into_iter().enumerate().map(fired));
        let (reached, missing): (Vec<_>, Vec<_>) = all.partition(|(_, reached)| *reached);
        let names = |named: Vec<(String, bool)>| named.into_iter().map(|(name, _)| name).collect();
        (names(reached), names(missing))
    }

    /// What [`Tally::store`] wrote.
    pub(crate) fn load(input: &mut dyn Read) -> io::Result<Self> {
        Ok(Self {
            levels: load_all(input)?,
            expanded: Word::get(input)?,
            transitions: Word::get(input)?,
            cut: Word::get(input)?,
            between_rounds: Word::get(input)?,
            witnessed: Word::get(input)?,
            fired: Word::get(input)?,
            notes: Notes::load(input)?,
            earlier: Duration::from_nanos(Word::get(input)?),
        })
    }
}

/// A tally, and the time that is spent on it by now.
pub(crate) struct Spent<'a>(pub(crate) &'a Tally, pub(crate) Duration);

impl Store for Spent<'_> {
    fn store(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self(tally, elapsed) = self;
        store_all(out, tally.levels.len(), tally.levels.iter().copied())?;
        tally.expanded.put(out)?;
        tally.transitions.put(out)?;
        tally.cut.put(out)?;
        tally.between_rounds.put(out)?;
        tally.witnessed.put(out)?;
        tally.fired.put(out)?;
        tally.notes.store(out)?;
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).put(out)
    }
}
