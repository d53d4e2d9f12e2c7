//! The tag that travels with every payload: which collective a rank believes it is in.
//!
//! Ranks compare tags before they look at a payload; a difference is a typed error on every rank.

use lockstep_spec::ids::{Epoch, Round};
use lockstep_spec::ticket::Site;
use std::fmt;

/// The identity of one entry into a collective: a ticket of spec as it travels. Site and kind are numbers here, compared and not
/// interpreted.
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
    /// As spec prints a ticket; a site that spec does not have prints its number.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, round, site, shape, .. } = *self;
        match Site::ALL.into_iter().find(|known| known.code() == site) {
            Some(known) => write!(out, "{known:?}[{shape}] {} {}", Epoch(epoch), Round(round)),
            None => write!(out, "site {site}[{shape}] {} {}", Epoch(epoch), Round(round)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag { epoch: 1, round: u64::MAX, site: 2, kind: 3, shape: 1 << 40 };

    #[test]
    fn tag_survives_the_wire() {
        assert_eq!(Tag::decode(&TAG.encode()), Some(TAG));
    }

    #[test]
    fn tag_prints_as_a_ticket_does() {
        let vote = Tag { site: Site::Vote.code(), round: 7, shape: 46, ..TAG };
        assert_eq!(vote.to_string(), "Vote[46] e1 round7");
        assert_eq!(Tag { site: 9, round: 7, shape: 1, ..TAG }.to_string(), "site 9[1] e1 round7");
    }
}
