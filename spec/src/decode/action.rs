//! What a decision tells each decode rank, and what the rank then does. Every action names the leg or request it is about, so that
//! completions come back by name.

use crate::decode::phase::Outcome;
use crate::host::Copy;
use crate::ids::{Leg, PageId, RequestId, SlotIndex, TokenId};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Where an accepted token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenSource {
    /// The agreed first token of a transfer.
    FirstToken(TokenId),
    /// A row of one of the forwards that are now agreed to have retired.
    Forward {
        /// Which of them, oldest first.
        index: usize,
        /// Which row of its plan.
        row: usize,
    },
}

/// What a decision tells every rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Start the handshake of a leg.
    Handshake {
        /// The leg.
        leg: Leg,
        /// Whose it is.
        request: RequestId,
        /// Tokens of the output so far: prefill computes the prompt and these.
        generated: u32,
    },
    /// Copy a page to or from the hosts.
    Copy(Copy),
    /// Publish a leg's pages.
    Publish {
        /// The leg.
        leg: Leg,
        /// The pages that the transfer fills, in the order of positions.
        pages: Vec<PageId>,
    },
    /// The attempt is over: revoke its grant, if there is one.
    EndAttempt {
        /// The leg.
        leg: Leg,
    },
    /// The slot is free again.
    Release {
        /// The last leg of its occupant.
        leg: Leg,
    },
    /// Accept a token of a request.
    Accept {
        /// The slot.
        slot: SlotIndex,
        /// The request.
        request: RequestId,
        /// Index of the token in the output.
        index: u32,
        /// The token.
        source: TokenSource,
        /// The end of the output, if this is its last token.
        ended: Option<Outcome>,
    },
    /// Tell the client that a request ended without a further token.
    End {
        /// The request.
        request: RequestId,
        /// How.
        outcome: Outcome,
    },
}

/// What a decode rank does alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Do {
    /// Start the handshake with the prefill side; on the leader also: have the front end send the leg to the prefill group.
    Handshake {
        /// The leg.
        leg: Leg,
        /// Whose it is.
        request: RequestId,
        /// Tokens of the output so far.
        generated: u32,
    },
    /// Copy a page to or from the host, behind all that the device was asked for before.
    Copy(Copy),
    /// Hand the page list to the fabric.
    Publish {
        /// The leg.
        leg: Leg,
        /// The pages, in the order of positions.
        pages: Vec<PageId>,
    },
    /// The attempt ended before anything was granted: stop its handshake, and tell the prefill side that it is not wanted.
    Withdraw {
        /// The leg.
        leg: Leg,
    },
    /// Fence a leg: cancel its publish or revoke its grant, and report `Fenced`.
    Fence {
        /// The leg.
        leg: Leg,
    },
    /// The next forward of a slot starts from this token.
    Seed {
        /// The slot.
        slot: SlotIndex,
        /// The token.
        token: TokenId,
    },
    /// Send a token to the client. Leader only.
    Emit {
        /// The request.
        request: RequestId,
        /// Index of the token in the output.
        index: u32,
        /// The token.
        token: TokenId,
        /// The end of the output, if this is its last token.
        ended: Option<Outcome>,
    },
    /// Tell the client that a request ended. Leader only.
    End {
        /// The request.
        request: RequestId,
        /// How.
        outcome: Outcome,
    },
}
