//! The source of chance of random walks: `SplitMix64`, the same on every machine for a seed.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of numbers that a seed determines.
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// The stream of `seed`; neighbouring seeds have unrelated streams.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: mixed(seed.wrapping_add(STEP)) }
    }

    /// A number below `ways`, which must not be zero.
    pub(crate) fn below(&mut self, ways: usize) -> usize {
        self.state = self.state.wrapping_add(STEP);
        let product = u128::from(mixed(self.state)) * ways as u128;
        usize::try_from(product >> u64::BITS).unwrap_or(0)
    }
}

const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_the_same_for_a_seed_and_even() {
        let stream = |seed| {
            let mut chance = Chance::new(seed);
            (0..6_000).map(move |_| chance.below(6)).collect::<Vec<_>>()
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
        let counts = [0, 1, 2, 3, 4, 5].map(|side| stream(7).iter().filter(|drawn| **drawn == side).count());
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
