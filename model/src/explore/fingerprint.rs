//! Fingerprints of states: 128 bits, the same in every run, on every thread.
//!
//! Two differently seeded 64-bit lanes absorb the same words. Narrow fields are packed into words first: the
//! stream that `Hash` writes is prefix-free, so packing by width loses nothing.

use std::hash::{Hash, Hasher};

/// Number of bits of a fingerprint.
pub(crate) const BITS: i32 = 128;

const SEEDS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];
const FACTORS: [u64; 2] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];
/// Integers below this are absorbed as one byte: discriminants and lengths are `isize` and `usize`.
const ESCAPE: u64 = 0xff;

/// The fingerprint of `state`; never zero.
pub(crate) fn fingerprint<S: Hash>(state: &S) -> u128 {
    let mut hasher = Fingerprinter::default();
    state.hash(&mut hasher);
    hasher.fingerprint()
}

/// Upper estimate of the probability that two of `unique` states share a fingerprint (birthday bound).
#[must_use]
pub fn collision_bound(unique: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate to two digits")]
    let states = unique as f64;
    states * states / 2f64.powi(BITS + 1)
}

/// What absorbs a stream. The fingerprint depends on how the stream is cut into writes.
pub struct Fingerprinter {
    lanes: [u64; 2],
    word: u64,
    filled: u32,
}

impl Default for Fingerprinter {
    fn default() -> Self {
        Self { lanes: SEEDS, word: 0, filled: 0 }
    }
}

impl Fingerprinter {
    /// The fingerprint of what was written; never zero.
    #[must_use]
    pub fn fingerprint(mut self) -> u128 {
        let filled = self.filled;
        self.absorb();
        self.word = u64::from(filled);
        self.absorb();
        let [low, high] = self.lanes.map(|lane| fold(lane, SEEDS[1]));
        ((u128::from(high) << 64) | u128::from(low)).max(1)
    }

    fn absorb(&mut self) {
        let [low, high] = self.lanes;
        self.lanes = [fold(low ^ self.word, FACTORS[0]), fold(high.wrapping_add(self.word), FACTORS[1])];
        self.word = 0;
        self.filled = 0;
    }

    fn push(&mut self, value: u64, bits: u32) {
        if self.filled + bits > u64::BITS {
            self.absorb();
        }
        self.word |= value << self.filled;
        self.filled += bits;
    }

    fn push_small(&mut self, value: u64) {
        if value < ESCAPE {
            self.push(value, 8);
        } else {
            self.push(ESCAPE, 8);
            self.push(value, 64);
        }
    }
}

impl Hasher for Fingerprinter {
    fn finish(&self) -> u64 {
        fold(self.lanes[0] ^ self.word, self.lanes[1])
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.push(u64::from_le_bytes(*word), 64));
        rest.iter().for_each(|byte| self.push(u64::from(*byte), 8));
    }

    fn write_u8(&mut self, value: u8) {
        self.push(u64::from(value), 8);
    }

    fn write_u16(&mut self, value: u16) {
        self.push(u64::from(value), 16);
    }

    fn write_u32(&mut self, value: u32) {
        self.push(u64::from(value), 32);
    }

    fn write_u64(&mut self, value: u64) {
        self.push(value, 64);
    }

    fn write_usize(&mut self, value: usize) {
        self.push_small(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.push_small(value.cast_unsigned() as u64);
    }
}

/// Folded multiplication: both halves of the product take part.
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are taken apart")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn fingerprint_is_fixed() {
        assert_eq!(
            fingerprint(&(1u8, 2u16, Some(3u32), vec![4u64])),
            24_966_889_455_072_823_307_281_009_172_553_512_525
        );
    }

    #[test]
    fn fingerprint_tells_neighbours_apart() {
        let mut prints = BTreeSet::new();
        for left in 0..300u16 {
            for right in 0..300usize {
                prints.insert(fingerprint(&(left, vec![0u8; right % 20], right)));
            }
        }
        assert_eq!(prints.len(), 90_000);
        let halves: BTreeSet<u128> = prints.iter().map(|print| print >> 64).collect();
        assert_eq!(halves.len(), 90_000);
    }

    #[test]
    fn fingerprint_tells_widths_and_escapes_apart() {
        let prints = [
            fingerprint(&(0x00ffusize, 1u8)),
            fingerprint(&(0x01ffusize, 1u8)),
            fingerprint(&(0x00feusize, 1u8)),
            fingerprint(&(-1isize, 1u8)),
        ];
        assert_eq!(prints.iter().collect::<BTreeSet<_>>().len(), prints.len());
    }

    #[test]
    fn fingerprint_bound_grows_with_the_square() {
        let ratio = collision_bound(2_000_000) / collision_bound(1_000_000);
        assert!((ratio - 4.0).abs() < 1e-9);
        assert!(collision_bound(1_000_000_000) < 1e-20);
    }
}
