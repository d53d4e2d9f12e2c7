//! The keys of a prompt's leading pages: what prompts that begin alike have in common. They are SHA-256 digests, cut to 128 bits, so that no
//! client can make up a prompt that is taken for another's.

use lockstep_spec::ids::BlockKey;
use sha2::{Digest, Sha256};

/// Which pages of a prompt have keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Positions of a page.
    pub page_size: u32,
    /// Most leading pages of a prompt that have one.
    pub pages: u32,
}

impl Prefix {
    /// The keys of the leading full pages of `tokens`: each is the digest of its page's tokens and of all before.
    pub(super) fn keys(&self, tokens: &[u32]) -> Vec<BlockKey> {
        let mut hasher = Sha256::new();
        let pages = tokens.chunks_exact(self.page_size.max(1) as usize).take(self.pages as usize);
        let key = |page: &[u32]| {
            page.iter().for_each(|token| hasher.update(token.to_le_bytes()));
            key_of(&hasher.clone().finalize())
        };
        pages.map(key).collect()
    }
}

/// The first 128 bits of a digest.
fn key_of(digest: &[u8]) -> BlockKey {
    let (words, _) = digest.as_chunks();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    BlockKey([words.next().unwrap_or_default(), words.next().unwrap_or_default()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_keys_are_of_full_pages_and_of_all_before_them() {
        let prefix = Prefix { page_size: 2, pages: 3 };
        let keys = prefix.keys(&[1, 2, 3, 4, 5]);
        assert_eq!(keys.len(), 2, "the fifth token fills no page");
        assert_eq!(keys, prefix.keys(&[1, 2, 3, 4]));
        let others = prefix.keys(&[9, 2, 3, 4]);
        assert!(keys.iter().zip(&others).all(|(key, other)| key != other), "each has all before it");
        assert_eq!(keys[0], prefix.keys(&[1, 2, 9, 9])[0]);
        assert_eq!(prefix.keys(&[1; 100]).len(), 3);
        assert!(Prefix { pages: 0, ..prefix }.keys(&[1, 2]).is_empty());
    }

    /// Of the bytes 1, 0, 0, 0, by `sha256sum`.
    #[test]
    fn prefix_keys_are_sha_256() {
        let key = Prefix { page_size: 1, pages: 1 }.keys(&[1]);
        assert_eq!(key, [BlockKey([0xfff0_2410_72dd_ab67, 0xc53b_c12f_4c3f_0b4e])]);
    }
}
