//! What a decision tells each prefill rank, and what the rank then does.

use crate::host::Copy;
use crate::ids::{Leg, PageId, SlotIndex, TokenId};
use crate::prefill::leg::LegOutcome;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// What a decision tells every rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Write a leg's KV and row to the decode side.
    Write {
        /// The slot.
        slot: SlotIndex,
        /// The leg.
        leg: Leg,
        /// Its pages here, in the order of positions.
        pages: Vec<PageId>,
        /// Which of the forwards that are now agreed to have retired.
        forward: usize,
        /// Which row of its plan.
        row: usize,
    },
    /// The leg ended.
    End {
        /// The slot.
        slot: SlotIndex,
        /// The leg.
        leg: Leg,
        /// How.
        outcome: LegOutcome,
    },
    /// Copy a page between the device and the host.
    Copy(Copy),
    /// The slot is free again.
    Release {
        /// The slot.
        slot: SlotIndex,
        /// The leg.
        leg: Leg,
    },
}

/// What a prefill rank does alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Do {
    /// Write these pages and the row to the decode peer, and report `Written` or `WriteFailed`.
    Write {
        /// The leg.
        leg: Leg,
        /// The pages to read, in the order of positions.
        pages: Vec<PageId>,
        /// The token sampled after the last position.
        token: TokenId,
    },
    /// Tell the decode peer that a leg failed here.
    Fail {
        /// The leg.
        leg: Leg,
        /// How.
        outcome: LegOutcome,
    },
    /// Copy a page between the device and the host, behind all copies before it, and report `Copied`.
    Copy(Copy),
    /// Forget a leg's tokens and page list.
    Forget {
        /// The leg.
        leg: Leg,
    },
}
