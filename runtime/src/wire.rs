//! The wire between the front end and each rank process: one JSON value a line, over a Unix socket or TCP.
//!
//! A rank that the supervisor started connects to the control socket named on its command line and says [`RankToFront::Hello`] first; one
//! that a launcher started comes over TCP and begins as `enlist` says.
//! ```text
//!   front end ── Submit, Abort ─────────▶ decode leader ── LegWanted, Token, Ended ──▶ front end
//!             ── Attach, Leg ───────────▶ every prefill rank
//!             ── Pause, Resume ─────────▶ both leaders
//!             ── Dismiss, Shutdown ─────▶ every rank ────── Ready, Progress, Fatal ──▶
//! ```
//! Where the two groups are deployed apart, their front ends have a line of their own (`between`).
//!
//! Reading order: the messages here, then `enlist`, `between`, `lines` (bounded lines, no I/O), and `rank_end` (the rank's blocking end).

mod between;
mod enlist;
mod lines;
mod rank_end;

pub use between::{Attachment, LEAST_WORD_INTERVAL, LONGEST_SILENCE, ToDecode, ToPrefill};
pub use enlist::{Answer, Assignment, Enlistment, Meeting, Terms, version};
pub use lines::{LineReader, WireError, encode};
pub use rank_end::{RankEnd, RankReceiver, RankSender};

pub use lockstep_spec::decode::phase::Outcome;
pub use lockstep_spec::decode::request::{Draw, Request, Sampling};
pub use lockstep_spec::ids::Leg;

use std::fmt;

use lockstep_spec::ids::{BlockKey, Epoch};
use lockstep_spec::ticket::Site;
use serde::{Deserialize, Serialize};

/// Longest line a rank may send, in bytes: its longest message is a [`RankToFront::Fatal`] with its evidence.
pub const RANK_LINE_BYTES: usize = 64 * 1024;

/// Longest line the front end may send, in bytes: a [`FrontToRank::Leg`] of 400,000 tokens of ten digits, with the keys of 16,384 pages.
pub const FRONT_LINE_BYTES: usize = 6 * 1024 * 1024;

/// Which of the two groups a rank belongs to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The group that decodes, token after token.
    Decode,
    /// The group that computes the KV of prompts.
    Prefill,
}

impl Role {
    /// The name on command lines, in messages and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        }
    }

    /// The other group.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Decode => Self::Prefill,
            Self::Prefill => Self::Decode,
        }
    }
}

/// Ranks of the two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Of the decode group.
    pub decode: u32,
    /// Of the prefill group.
    pub prefill: u32,
}

impl Sizes {
    /// Ranks of a group.
    #[must_use]
    pub fn of(self, role: Role) -> u32 {
        match role {
            Role::Decode => self.decode,
            Role::Prefill => self.prefill,
        }
    }

    /// Ranks of the larger group.
    #[must_use]
    pub fn largest(self) -> u32 {
        self.decode.max(self.prefill)
    }

    /// Ranks of both.
    #[must_use]
    pub fn total(self) -> u32 {
        self.decode.saturating_add(self.prefill)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A rank's name: its group and its index there. Index 0 is the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankName {
    /// The group.
    pub role: Role,
    /// The index within the group.
    pub rank: u32,
}

impl RankName {
    /// The rank that orders its group's intake.
    pub fn is_leader_of(self, role: Role) -> bool {
        self.role == role && self.rank == 0
    }
}

impl fmt::Display for RankName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} rank {}", self.role, self.rank)
    }
}

/// A rank of one epoch: whom a control connection speaks for. The next epoch has another process in the same rank's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// The epoch.
    pub epoch: Epoch,
    /// The rank's name.
    pub name: RankName,
}

/// What groups keep of what they have computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Keeping {
    /// Leading KV pages of a prompt that prefill keeps for prompts that begin alike; 0 keeps none
    #[arg(long, value_name = "PAGES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=16_384))]
    pub prefix_pages: u32,
    /// Pages in the memory of each prefill rank's host, to which kept pages are copied: they outlive the rank's own pages
    #[arg(long, value_name = "PAGES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16_777_216))]
    pub host_pages: u32,
    /// Pages in the memory of each decode rank's host, to which requests that give their pages up are copied; one for which there is no room is computed anew by prefill
    #[arg(long, value_name = "PAGES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16_777_216))]
    pub swap_pages: u32,
}

/// What a rank can hold, told once when its model is loaded and its group is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// KV pages.
    pub pages: u32,
    /// Positions a page holds.
    pub page_size: u32,
    /// Requests that can hold a slot at once.
    pub slots: u32,
    /// Positions the model was made for.
    pub context: u32,
}

/// A rank's counters since its epoch began. A rank sends them about every 200 ms, also when idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The group's epoch.
    pub epoch: u64,
    /// Rounds completed.
    pub round: u64,
    /// Where the last collective was that it entered.
    pub site: Option<Site>,
    /// Votes completed.
    pub votes: u64,
    /// Of those, votes that were reduced in the devices' queue.
    pub votes_in_stream: u64,
    /// Briefs completed.
    pub briefs: u64,
    /// Forwards retired.
    pub forwards: u64,
    /// Rounds in which a slot was used; only these count in the two times below.
    pub rounds_with_work: u64,
    /// Time from entering a vote between the hosts to its completion, over all rounds, in microseconds. On the leader, whose entry is the
    /// others' bell, it is the wait for the last follower: what a rank can know of the spread of its group's entries.
    pub vote_wait_micros_total: u64,
    /// Time inside votes between the hosts and briefs, in microseconds.
    pub agreement_micros_total: u64,
    /// Time from launch to retirement of forwards, in microseconds.
    pub forward_micros_total: u64,
    /// Time without a forward between two of which the later goes on from the earlier, in microseconds: what the device waits for its
    /// group. Copies to the hosts and pauses count too.
    pub forward_gap_micros_total: u64,
    /// Slots in use.
    pub slots_used: u32,
    /// KV pages that a new request may have: free, or kept for prompts that begin alike and held by none.
    pub pages_free: u32,
    /// KV pages that are kept for prompts that begin alike.
    pub pages_kept: u32,
    /// Pages of prompts that were not computed, because they were kept.
    pub pages_matched: u64,
    /// Of those, pages that came back from the host.
    pub pages_loaded: u64,
    /// Requests that came back from the hosts, to which they were copied when they gave their pages up.
    pub restored: u64,
    /// Whether it waits for a vote in the devices' queue that has a forward ahead of it there: then it goes round once that has run.
    pub awaits_forward: bool,
    /// Whether the group is paused and none of its forwards is in flight.
    pub paused: bool,
}

/// A message of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankToFront {
    /// The end of a request whose last token, if any, was sent before. Decode leader only.
    Ended {
        /// The request.
        request: u64,
        /// How it ended.
        outcome: Outcome,
    },
    /// The rank's last words: it ends its epoch and its process.
    Fatal {
        /// What went wrong.
        text: String,
        /// The rank of the same group that did not come, where known.
        missing_rank: Option<u32>,
        /// The ticket that this rank entered last.
        last_ticket: Option<String>,
    },
    /// The first message: who is speaking.
    Hello {
        /// The epoch that the rank is to form with its group.
        epoch: Epoch,
        /// The rank's group.
        role: Role,
        /// The rank's index.
        rank: u32,
        /// The rank's process id; it must be the one on the socket's other end.
        pid: u32,
    },
    /// A prefill of this request is wanted, of the prompt and the first `generated` tokens. Decode leader only.
    LegWanted {
        /// The request.
        request: u64,
        /// The identity under which prefill is to deliver.
        leg: Leg,
        /// Generated tokens that the prefill covers; all of them were sent before.
        generated: u32,
    },
    /// The rank lives; its counters.
    Progress(Progress),
    /// The model is loaded and the group is formed.
    Ready(Room),
    /// The agreed token of one index of a request. Decode leader only.
    Token {
        /// The request.
        request: u64,
        /// The token's index among the generated ones; the next one, always.
        index: u32,
        /// The token.
        token: u32,
        /// The end, where this is the last token and the verdict came with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<Outcome>,
    },
}

/// A message of the front end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrontToRank {
    /// The client is gone, or its stream has ended otherwise. Sent once at most. Decode leader only.
    Abort {
        /// The request.
        request: u64,
    },
    /// The prefill group is tied to this decode deployment, and its epochs before `since` are over. To every prefill rank, where the groups are
    /// deployed apart.
    Attach {
        /// Number that no other deployment has.
        deployment: u64,
        /// The first epoch that is not over.
        since: Epoch,
    },
    /// Leave in an orderly way: the other group is lost, and an epoch of other processes follows.
    Dismiss,
    /// The tokens of a wanted leg. To every prefill rank.
    Leg {
        /// The identity that decode gave it.
        leg: Leg,
        /// The request's place in acceptance order.
        acceptance: u64,
        /// The prompt and the tokens generated so far.
        tokens: Vec<u32>,
        /// Keys of their leading full pages. To the leader.
        keys: Vec<BlockKey>,
        /// How the token after them is chosen.
        draw: Draw,
    },
    /// Launch nothing until told to go on. Leaders only.
    Pause,
    /// Go on after a pause. Leaders only.
    Resume,
    /// Leave in an orderly way: the deployment ends.
    Shutdown,
    /// A request to decode: newly accepted, or of an earlier epoch, or one whose transfer failed. Decode leader only.
    Submit(Request),
}
