//! The tag that travels with every payload: which collective a rank believes it is in.
//!
//! Ranks compare tags before they look at a payload; a difference is a typed error on every rank.

use std::fmt;

/// The identity of one entry into a collective. Site and kind are opaque here: the caller numbers
/// them, and names them with [`Tag::named`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Epoch of the group.
    pub epoch: u64,
    /// Round of the rank loop.
    pub round: u64,
    /// Place in the round.
    pub site: u8,
    /// Kind of the collective.
    pub kind: u8,
    /// Shape of the payload, or a digest of it.
    pub shape: u64,
}

impl Tag {
    /// Bytes of a tag on the wire.
    pub(super) const BYTES: usize = 26;

    /// A view that prints the site and the kind by the caller's names.
    pub fn named(
        self,
        site: fn(u8) -> &'static str,
        kind: fn(u8) -> &'static str,
    ) -> impl fmt::Display {
        Named {
            tag: self,
            site: site(self.site),
            kind: kind(self.kind),
        }
    }

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.round.to_le_bytes());
        bytes[16] = self.site;
        bytes[17] = self.kind;
        bytes[18..26].copy_from_slice(&self.shape.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (epoch, rest) = bytes.split_first_chunk()?;
        let (round, rest) = rest.split_first_chunk()?;
        let (&[site, kind], rest) = rest.split_first_chunk()?;
        let (shape, _) = rest.split_first_chunk()?;
        Some(Self {
            epoch: u64::from_le_bytes(*epoch),
            round: u64::from_le_bytes(*round),
            site,
            kind,
            shape: u64::from_le_bytes(*shape),
        })
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            epoch,
            round,
            site,
            kind,
            shape,
        } = self;
        write!(
            out,
            "epoch {epoch} round {round} site {site} kind {kind} shape {shape:#x}"
        )
    }
}

struct Named {
    tag: Tag,
    site: &'static str,
    kind: &'static str,
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tag {
            epoch,
            round,
            shape,
            ..
        } = self.tag;
        let Self { site, kind, .. } = self;
        write!(
            out,
            "epoch {epoch} round {round} {site} ({kind}, shape {shape:#x})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag {
        epoch: 1,
        round: u64::MAX,
        site: 2,
        kind: 3,
        shape: 1 << 40,
    };

    #[test]
    fn tag_survives_the_wire() {
        assert_eq!(Tag::decode(&TAG.encode()), Some(TAG));
    }

    #[test]
    fn tag_prints_the_callers_names() {
        let text = TAG.named(|_| "Vote", |_| "min").to_string();
        assert_eq!(
            text,
            "epoch 1 round 18446744073709551615 Vote (min, shape 0x10000000000)"
        );
    }
}
