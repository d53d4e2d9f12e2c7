//! Rebasing: unbounded counters are renamed densely, order preserved, so that endless traffic is a finite graph and "exhaustive" means
//! all behaviour at a size, not a prefix of it. What it may hide: behaviour that depends on a counter's distance or overflow; the
//! machine reads only order and equality.

use lockstep_spec::counters::{Counter, Counters};
use std::collections::{BTreeMap, BTreeSet};

/// The new names of one state's counters.
#[derive(Debug, Default)]
pub struct Renaming {
    seen: BTreeMap<Counter, BTreeSet<u64>>,
}

impl Renaming {
    /// Collects the counters of a part of the state.
    pub fn collect(&mut self, part: &mut impl Counters) {
        part.visit(&mut |counter, value| {
            self.seen.entry(counter).or_default().insert(*value);
        });
    }

    /// Rewrites the counters of a part whose counters were collected.
    pub fn rename(&self, part: &mut impl Counters) {
        part.visit(&mut |counter, value| *value = self.renamed(counter, *value));
    }

    fn renamed(&self, counter: Counter, value: u64) -> u64 {
        self.seen.get(&counter).map_or(0, |values| values.range(..value).count() as u64)
    }
}
