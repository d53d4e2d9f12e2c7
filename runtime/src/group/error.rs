//! Errors of a group, sorted by blame: a peer, the configuration, this rank's own caller, the
//! machine.
//!
//! Every one is fatal to the group: after it ranks may have seen different things, so the member
//! that met it returns the same error for ever.

use std::fmt;
use std::io;
use std::time::Duration;

use thiserror::Error;

use super::frame::Operation;
use super::tag::Tag;

/// Why a collective, or the forming of a group, did not complete.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GroupError {
    /// A peer did not enter within the deadline.
    #[error("rank {rank} did not arrive within {waited:?}; it last entered {}; see its log, or raise the deadline if it was only slow", Last(*.last))]
    Missing {
        /// The rank that is missing; the lowest, if several are.
        rank: usize,
        /// How long this rank waited.
        waited: Duration,
        /// The last tag that the missing rank is known to have entered.
        last: Option<Tag>,
    },
    /// A peer closed its connection or died.
    #[error("rank {rank} is gone; it last entered {}; see its log", Last(*.last))]
    Gone {
        /// The rank that is gone.
        rank: usize,
        /// The last tag that it is known to have entered.
        last: Option<Tag>,
    },
    /// A peer found the culprit first and told this rank.
    #[error("rank {by} reports that rank {rank} failed the group; it last entered {}; see the log of rank {rank}", Last(*.last))]
    Relayed {
        /// The culprit; may be this rank, when a peer gave up on it.
        rank: usize,
        /// The last tag that the culprit is known to have entered.
        last: Option<Tag>,
        /// The rank that told.
        by: usize,
    },
    /// A peer entered another collective in the same position.
    #[error(
        "rank {rank} entered {theirs} where this rank entered {ours}; the ranks have diverged: compare what each entered last"
    )]
    Mismatch {
        /// The rank that differs.
        rank: usize,
        /// What this rank entered.
        ours: Tag,
        /// What the peer entered.
        theirs: Tag,
    },
    /// A peer entered the same tag with another operation or another root.
    #[error(
        "rank {rank} entered {tag} as {theirs} where this rank entered it as {ours}; give each operation a kind of its own"
    )]
    MixedOperation {
        /// The rank that differs.
        rank: usize,
        /// The tag, the same on both ranks.
        tag: Tag,
        /// This rank's operation.
        ours: Operation,
        /// The peer's operation.
        theirs: Operation,
    },
    /// A peer's payload for a reduction has another length than this rank's.
    #[error(
        "rank {rank} sent {theirs} bytes for {tag} where this rank has {ours}; put the length into the shape of the tag"
    )]
    UnequalLength {
        /// The rank that differs.
        rank: usize,
        /// The tag, the same on both ranks.
        tag: Tag,
        /// This rank's payload, bytes.
        ours: usize,
        /// The peer's payload, bytes.
        theirs: usize,
    },
    /// A payload is longer than the limit; `rank` is its sender, perhaps this rank itself.
    #[error(
        "rank {rank} has a payload of {length} bytes, over the limit of {limit}; raise the group's payload limit or send less"
    )]
    Oversize {
        /// The sender.
        rank: usize,
        /// The payload, bytes.
        length: usize,
        /// The limit, bytes.
        limit: usize,
    },
    /// A peer sent bytes that are no frame of this protocol.
    #[error("rank {rank} sent bytes that are no frame of this protocol; is it the same build?")]
    Malformed {
        /// The sender.
        rank: usize,
    },
    /// A peer was started with another configuration.
    #[error(
        "rank {rank} was started with another {setting} ({theirs}) than this rank ({ours}); start every rank from one configuration"
    )]
    Differs {
        /// The rank that differs.
        rank: usize,
        /// What differs.
        setting: Setting,
        /// This rank's value.
        ours: String,
        /// The peer's value.
        theirs: String,
    },
    /// Two processes claim one rank.
    #[error("two processes claim rank {rank}; start each rank once")]
    Duplicate {
        /// The rank that is claimed twice.
        rank: usize,
    },
    /// The caller asked for what no group can do.
    #[error("{0}")]
    Misuse(&'static str),
    /// A call of the operating system failed on this rank.
    #[error("{doing}: {text}")]
    Io {
        /// What this rank was doing.
        doing: &'static str,
        /// The kind of the failure.
        kind: io::ErrorKind,
        /// The failure in words.
        text: String,
    },
}

/// A setting that all ranks of a group must share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The epoch of the group.
    Epoch,
    /// The hash of the group's configuration.
    Fingerprint,
    /// Which rank answers at which socket.
    Rank,
    /// The number of ranks.
    Size,
    /// What carries the collectives.
    Transport,
    /// The version of the wire protocol.
    Version,
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Epoch => "epoch",
            Self::Fingerprint => "configuration fingerprint",
            Self::Rank => "rank",
            Self::Size => "group size",
            Self::Transport => "transport (1 shm, 2 tcp, 3 unix)",
            Self::Version => "protocol version",
        })
    }
}

impl GroupError {
    pub(super) fn io(doing: &'static str, error: &io::Error) -> Self {
        Self::Io { doing, kind: error.kind(), text: error.to_string() }
    }

    /// Whom a poison frame sent by rank `me` names for this error, and what that rank last entered.
    pub(super) fn culprit(&self, me: usize) -> (usize, Option<Tag>) {
        match *self {
            Self::Missing { rank, last, .. }
            | Self::Gone { rank, last }
            | Self::Relayed { rank, last, .. } => (rank, last),
            Self::Mismatch { rank, theirs, .. } => (rank, Some(theirs)),
            Self::MixedOperation { rank, tag, .. } | Self::UnequalLength { rank, tag, .. } => {
                (rank, Some(tag))
            }
            Self::Oversize { rank, .. }
            | Self::Malformed { rank }
            | Self::Differs { rank, .. }
            | Self::Duplicate { rank } => (rank, None),
            Self::Misuse(_) | Self::Io { .. } => (me, None),
        }
    }
}

struct Last(Option<Tag>);

impl fmt::Display for Last {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(tag) => tag.fmt(out),
            None => out.write_str("nothing"),
        }
    }
}
