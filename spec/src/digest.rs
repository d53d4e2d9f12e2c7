//! A stable 64-bit digest: of agreed state in each vote, of a forward's tokens, of a configuration.

use core::hash::{Hash, Hasher};

/// FNV-1a with a final mix. It finds divergence between honest ranks; it is no defence against an adversary.
#[derive(Clone, Debug)]
pub struct Digest(u64);

impl Digest {
    /// Digest of a value by its `Hash`.
    pub fn of<T: Hash + ?Sized>(value: &T) -> u64 {
        let mut digest = Self(0xcbf2_9ce4_8422_2325);
        value.hash(&mut digest);
        digest.finish()
    }

    fn mix(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        let folded = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        folded ^ (folded >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }
}
