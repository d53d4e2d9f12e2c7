//! The frames between ranks: an entry into a collective, or the poison that ends the group.
//!
//! A frame is a header of fixed size and, for an entry, as many payload bytes as it says.

use std::fmt;

use super::tag::Tag;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 10 + Tag::BYTES;

const ENTRY: u8 = 1;
const POISON: u8 = 2;

/// What a collective does with the payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Gives every rank the root's payload.
    Broadcast {
        /// The rank whose payload it is.
        root: usize,
    },
    /// Gives every rank all payloads.
    Gather,
    /// Gives every rank the element-wise minimum.
    Min,
    /// Gives every rank the element-wise sum.
    Sum,
}

impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broadcast { root } => write!(out, "a broadcast from rank {root}"),
            Self::Gather => out.write_str("a gather"),
            Self::Min => out.write_str("a minimum"),
            Self::Sum => out.write_str("a sum"),
        }
    }
}

impl Operation {
    fn encode(self) -> (u8, u32) {
        match self {
            // A root is below the group's size, which forming holds under 2^32.
            Self::Broadcast { root } => (0, u32::try_from(root).unwrap_or(u32::MAX)),
            Self::Gather => (1, 0),
            Self::Min => (2, 0),
            Self::Sum => (3, 0),
        }
    }

    fn decode(code: u8, root: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Broadcast { root: usize::try_from(root).ok()? }),
            1 => Some(Self::Gather),
            2 => Some(Self::Min),
            3 => Some(Self::Sum),
            _ => None,
        }
    }
}

/// The first bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// An entry into a collective; `length` payload bytes follow.
    Entry { operation: Operation, tag: Tag, length: u32 },
    /// The group has failed; nothing follows.
    Poison { culprit: u32, last: Option<Tag> },
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        match self {
            Self::Entry { operation, tag, length } => {
                let (code, root) = operation.encode();
                pack([ENTRY, code], [root, length], tag.encode())
            }
            Self::Poison { culprit, last } => {
                let tag = last.map_or([0; Tag::BYTES], Tag::encode);
                pack([POISON, u8::from(last.is_some())], [culprit, 0], tag)
            }
        }
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (&[frame, code], rest) = bytes.split_first_chunk()?;
        let (rank, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let tag = Tag::decode(rest.first_chunk()?)?;
        let (rank, length) = (u32::from_le_bytes(*rank), u32::from_le_bytes(*length));
        match (frame, code, length) {
            (ENTRY, _, _) => Some(Self::Entry { operation: Operation::decode(code, rank)?, tag, length }),
            (POISON, 0, 0) => Some(Self::Poison { culprit: rank, last: None }),
            (POISON, 1, 0) => Some(Self::Poison { culprit: rank, last: Some(tag) }),
            _ => None,
        }
    }
}

fn pack(codes: [u8; 2], numbers: [u32; 2], tag: [u8; Tag::BYTES]) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..2].copy_from_slice(&codes);
    bytes[2..6].copy_from_slice(&numbers[0].to_le_bytes());
    bytes[6..10].copy_from_slice(&numbers[1].to_le_bytes());
    bytes[10..].copy_from_slice(&tag);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag { epoch: 1, round: 2, site: 3, kind: 4, shape: 5 };

    #[test]
    fn frame_headers_survive_the_wire() {
        for header in [
            Header::Entry { operation: Operation::Broadcast { root: 3 }, tag: TAG, length: 9 },
            Header::Entry { operation: Operation::Gather, tag: TAG, length: 0 },
            Header::Entry { operation: Operation::Min, tag: TAG, length: u32::MAX },
            Header::Entry { operation: Operation::Sum, tag: TAG, length: 1 },
            Header::Poison { culprit: 7, last: Some(TAG) },
            Header::Poison { culprit: 7, last: None },
        ] {
            assert_eq!(Header::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn frame_garbage_is_refused() {
        assert_eq!(Header::decode(&[0; HEADER_BYTES]), None);
        assert_eq!(Header::decode(&[0xff; HEADER_BYTES]), None);
        let mut unknown_operation = Header::Poison { culprit: 0, last: None }.encode();
        unknown_operation[..2].copy_from_slice(&[ENTRY, 9]);
        assert_eq!(Header::decode(&unknown_operation), None);
    }
}
