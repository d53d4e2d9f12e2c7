//! Errors of the fabric, sorted by blame: the peer, the configuration, the caller, the machine.

use std::io;

use thiserror::Error;

use super::leg::{Leg, Pair};

/// Why a call of the fabric was refused, or why a connection ended.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FabricError {
    /// The peer closed the connection or died.
    #[error("the peer closed the connection; see its log")]
    Closed,
    /// No peer is connected.
    #[error("no peer is connected; wait for it, or see its log")]
    Disconnected,
    /// The peer sent what is no frame of this protocol.
    #[error("the peer sent bytes that are no valid frame ({0}); is it the same build and the right socket?")]
    Malformed(&'static str),
    /// The peer does not answer.
    #[error("the peer did not answer by the deadline; it is stuck or stopped")]
    Silent,
    /// The peer does not take the bytes that are queued for it.
    #[error("the peer did not take a frame by the write deadline; it is stuck or stopped")]
    Stuck,
    /// The peer refused the connection.
    #[error("the peer refused the connection: {0}")]
    Refused(String),
    /// The peer speaks another version.
    #[error("the peer speaks version {theirs} of the fabric, this rank {ours}; run one build on both sides")]
    Version {
        /// This rank's version.
        ours: u32,
        /// The peer's version.
        theirs: u32,
    },
    /// The peer belongs to another rank, or to another deployment.
    #[error(
        "the peer is of {theirs}, this rank of {ours}; the address that it was given is an old one, or another's"
    )]
    OtherPair {
        /// This rank's pair.
        ours: Pair,
        /// The peer's pair.
        theirs: Pair,
    },
    /// The peer is of an older epoch than one already seen.
    #[error("the peer is of epoch {theirs}, but epoch {newest} has been here; stop the old process")]
    OldEpoch {
        /// The newest epoch seen.
        newest: u64,
        /// The peer's epoch.
        theirs: u64,
    },
    /// A frame is longer than the fabric's limits.
    #[error("{what} of {length} is over the limit of {limit}; give both sides the same, larger limits")]
    Oversize {
        /// What is too long.
        what: &'static str,
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The leg is of another epoch than the connection.
    #[error("{leg} is not of the connected epoch {connected}; drop the leg")]
    OtherEpoch {
        /// The leg.
        leg: Leg,
        /// The epoch of the connection.
        connected: u64,
    },
    /// The leg has no completed handshake on this connection.
    #[error("{leg} has no completed handshake; call hello and wait for HandshakeReady")]
    NotReady {
        /// The leg.
        leg: Leg,
    },
    /// The leg is granted other pages already.
    #[error("{leg} is granted other pages already; revoke it and start a new attempt")]
    Regranted {
        /// The leg.
        leg: Leg,
    },
    /// The queue to the peer stayed full.
    #[error("the queue to the peer is full; slow down, or raise the queue limit")]
    QueueFull,
    /// It is not known where the peer is.
    #[error("the prefill rank's address is not known: {0}")]
    Unfound(String),
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

impl FabricError {
    pub(crate) fn io(doing: &'static str, error: &io::Error) -> Self {
        Self::Io { doing, kind: error.kind(), text: error.to_string() }
    }
}
