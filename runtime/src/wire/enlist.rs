//! How a rank that a launcher started takes its place at the front end: what it says first, and what it is answered, a line of JSON each.
//!
//! ```text
//!   rank ── Enlistment ──────▶ front end   once, as soon as it listens for its peers
//!   rank ◀── Wait ──────────── front end   every second, until every rank of both groups is there
//!   rank ◀── Serve ─────────── front end   its epoch; from here on the line is like any other rank's
//!   rank ◀── Leave, Refuse ─── front end   or it is not to serve, and the line ends
//! ```
//! An enlistment names no epoch: a process serves in one epoch, and the front end says in which. So nobody comes back into an epoch, and
//! nobody comes from an old one.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{Keeping, Role, Sizes};
use crate::launch::Mode;
use lockstep_spec::ids::Epoch;

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enlistment {
    /// The program's version, and the protocol's fingerprint.
    pub version: String,
    /// Digest of the model's `config.json`.
    pub model: u64,
    /// The group that it is to be in.
    pub role: Role,
    /// Its index there.
    pub rank: u32,
    /// The ranks of that group, as its launcher says.
    pub size: u32,
    /// Its process id, on its own machine.
    pub pid: u32,
    /// Type of its keys and values.
    pub kv_type: String,
    /// Where its peers find it, if it comes to lead.
    pub listens: Meeting,
}

/// Where the ranks of a group meet: the addresses at which rank 0 listens, one for each communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meeting {
    /// For the rank loops.
    pub control: SocketAddr,
    /// For the engines.
    pub device: SocketAddr,
}

/// What the front end answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The deployment ends: exit with code 0.
    Leave,
    /// There is no place for this rank.
    Refuse {
        /// Why, and what to do.
        why: String,
        /// Whether a new start of the same command would be refused again.
        for_good: bool,
    },
    /// Form the group, and serve.
    Serve(Assignment),
    /// Not all are there yet.
    Wait,
}

/// What a rank needs to serve in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The epoch.
    pub epoch: Epoch,
    /// Where the group meets.
    pub meeting: Meeting,
    /// What the front end's command line says of both groups.
    pub terms: Terms,
}

/// What both groups have in common in every epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Number that no other deployment has.
    pub deployment: u64,
    /// Ranks of the groups.
    pub sizes: Sizes,
    /// The bootstrap server; an unspecified address stands for the one at which a rank reaches the front end.
    pub bootstrap: SocketAddr,
    /// Times that a decode rank tries to reach its prefill rank, a second apart.
    pub handshake_tries: u32,
    /// Mode of the groups.
    pub mode: Mode,
    /// Requests that a group holds at once.
    pub slots: u32,
    /// KV pages of a rank.
    pub pages: u32,
    /// Positions of a KV page.
    pub page_size: u32,
    /// Tokens of one prefill forward at most.
    pub chunk_tokens: u32,
    /// What the prefill group keeps.
    pub keeping: Keeping,
    /// Whether the class need not be model-checked.
    pub unchecked: bool,
}

/// What both ends must agree on before anything else.
#[must_use]
pub fn version() -> String {
    format!("{} {}", env!("CARGO_PKG_VERSION"), lockstep_spec::FINGERPRINT)
}
