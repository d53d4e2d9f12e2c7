//! What the bootstrap server refuses, and why a rank did not get its answer.

use std::io;
use std::net::SocketAddr;

use axum::http::StatusCode;
use thiserror::Error;

use super::registry::Place;

/// Why the server answers with something else than 200.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// Not every rank of the group is there.
    #[error("Prefill server not fully registered yet ({registered} of {expected} workers registered).")]
    NotWhole {
        /// Ranks that are there.
        registered: usize,
        /// Ranks of the group; 0 while none is known.
        expected: u128,
    },
    /// There is no such rank.
    #[error("Bootstrap info not found for {0}")]
    NoSuchRank(Place),
    /// The ranks of the group are not alike.
    #[error(
        "{0} differs from what the first rank registered; start all ranks of a group with the same settings"
    )]
    Differs(&'static str),
    /// The rank is of a group that is no more, or not yet.
    #[error("the rank is of epoch {theirs}, but it is epoch {current}; stop the old process")]
    OtherEpoch {
        /// The epoch that is.
        current: u64,
        /// The rank's.
        theirs: u64,
    },
    /// The request could not be read.
    #[error("{0}")]
    Malformed(String),
    /// A group may not be as large as this one.
    #[error("a group of {ranks} ranks is over the limit of {limit}")]
    TooLarge {
        /// Its ranks.
        ranks: u128,
        /// The limit.
        limit: usize,
    },
    /// Too many rooms are known.
    #[error("{0} rooms are registered already; try again when some have expired")]
    RoomsFull(usize),
}

impl Refusal {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NotWhole { .. } | Self::RoomsFull(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoSuchRank(_) => StatusCode::NOT_FOUND,
            Self::Differs(_) | Self::OtherEpoch { .. } | Self::Malformed(_) | Self::TooLarge { .. } => {
                StatusCode::BAD_REQUEST
            }
        }
    }
}

/// Why the bootstrap server was asked in vain.
#[derive(Debug, Error)]
#[error("the bootstrap server at {server} {why}")]
pub struct BootstrapError {
    /// The server.
    pub server: SocketAddr,
    /// What went wrong.
    pub why: Failure,
}

/// What went wrong with one request.
#[derive(Debug, Error)]
pub enum Failure {
    /// There is no connection, or the asker stops.
    #[error("can not be reached ({0}); is it running?")]
    Connect(#[from] io::Error),
    /// The connection broke, or what came is no HTTP.
    #[error("does not speak HTTP, or broke off ({0}); is it the right port?")]
    Http(#[from] hyper::Error),
    /// The request could not be written.
    #[error("can not be asked ({0})")]
    Request(#[from] hyper::http::Error),
    /// No answer came in time.
    #[error("did not answer within {seconds} s; is it stuck?")]
    Late {
        /// The deadline.
        seconds: u64,
    },
    /// The answer is too long, or no JSON of this kind.
    #[error("answers what can not be read ({0}); is it the right port?")]
    Garbage(String),
    /// It refuses.
    #[error("says {status}: {text}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// Its words.
        text: String,
    },
    /// What it knows is not what this rank needs.
    #[error("knows of a prefill group whose {what} is {theirs}, but this rank's is {ours}")]
    Differs {
        /// What differs.
        what: &'static str,
        /// The prefill group's.
        theirs: u64,
        /// This rank's.
        ours: u64,
    },
}
