//! The line between the front ends of a decode and a prefill deployment, a line of JSON a word.
//!
//! ```text
//!   decode ── Attach ─────────▶ prefill   first: whose epoch it is
//!   decode ◀── Attached ─────── prefill   what prefill can hold; or it is refused, and the line ends
//!   decode ── Leg, Served ────▶ prefill   what is to be computed, and whose first token came
//!   decode ◀── Alive ─────────▶ prefill   when there is nothing else to say
//! ```
//! The line ends with decode's epoch and with prefill's. Decode's epochs are its own to count; prefill refuses one that it has seen over, and
//! says which may follow: so a decode front end that was started anew, and has forgotten, never names a leg twice.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Draw, Leg, Room, Sizes};
use lockstep_spec::ids::Epoch;

/// How often each end says something.
pub const LEAST_WORD_INTERVAL: Duration = Duration::from_millis(500);
/// After how much silence the line counts as ended. Much less than a handshake's patience: what fails for want of prefill is known to.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(3);

/// Who attaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The program's version, and the protocol's fingerprint.
    pub version: String,
    /// Digest of the model's `config.json`.
    pub model: u64,
    /// Type of keys and values.
    pub kv_type: String,
    /// Ranks of the groups.
    pub sizes: Sizes,
    /// Positions of a KV page.
    pub page_size: u32,
    /// Number that no other deployment has.
    pub deployment: u64,
    /// The epoch of decode's group, or of the one to come.
    pub epoch: Epoch,
}

/// What decode's front end says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToPrefill {
    /// The line lives.
    Alive,
    /// The first word.
    Attach(Attachment),
    /// The tokens of a leg that the decode group wants.
    Leg {
        /// The identity that decode gave it.
        leg: Leg,
        /// The request's place in acceptance order.
        acceptance: u64,
        /// The prompt and the tokens generated so far.
        tokens: Vec<u32>,
        /// How the token after them is chosen.
        draw: Draw,
    },
    /// The request of this room has its first token, or has ended.
    Served {
        /// The room.
        room: u64,
    },
}

/// What prefill's front end says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToDecode {
    /// The line lives.
    Alive,
    /// Legs are taken; what each prefill rank can hold.
    Attached(Room),
    /// The line ends.
    Refused {
        /// Why, and what to do.
        why: String,
        /// The first epoch that would be taken, if that is all.
        next: Option<Epoch>,
    },
}
