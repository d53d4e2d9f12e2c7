//! The state of one slot's KV as one rank sees it, in the order in which MIN over the ranks means something.

use serde::{Deserialize, Serialize};

/// Poll of a slot. The order is the meaning: a group is as far as its slowest rank, and a failure anywhere is a failure. Among failures
/// MIN picks one, so that the reason is agreed too; the deadline is the highest, since it says least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KvPoll {
    /// The transfer broke.
    TransferFailed,
    /// The metadata row or a page does not match its checksum.
    Corrupt,
    /// The metadata row belongs to another leg.
    WrongLeg,
    /// The other group cannot be reached.
    HandshakeFailed,
    /// The other group gave the leg up.
    Revoked,
    /// The deadline passed.
    DeadlinePassed,
    /// The handshake is under way.
    Bootstrapping,
    /// The handshake is done; nothing moves yet.
    WaitingForInput,
    /// KV is on its way.
    Transferring,
    /// KV is whole here. Also the neutral value of slots that wait for nothing.
    Success,
}

/// All polls, in order.
const ALL: [KvPoll; 10] = [
    KvPoll::TransferFailed,
    KvPoll::Corrupt,
    KvPoll::WrongLeg,
    KvPoll::HandshakeFailed,
    KvPoll::Revoked,
    KvPoll::DeadlinePassed,
    KvPoll::Bootstrapping,
    KvPoll::WaitingForInput,
    KvPoll::Transferring,
    KvPoll::Success,
];

impl KvPoll {
    /// The element of the vote.
    #[must_use]
    pub fn code(self) -> u64 {
        self as u64
    }

    /// The poll that an element stands for; a value beyond the last is the neutral one.
    #[must_use]
    pub fn from_code(code: u64) -> Self {
        usize::try_from(code).ok().and_then(|index| ALL.get(index)).copied().unwrap_or(Self::Success)
    }

    /// Reason of a failure, if it is one.
    #[must_use]
    pub fn failure(self) -> Option<Reason> {
        match self {
            Self::TransferFailed => Some(Reason::TransferFailed),
            Self::Corrupt => Some(Reason::Corrupt),
            Self::WrongLeg => Some(Reason::WrongLeg),
            Self::HandshakeFailed => Some(Reason::HandshakeFailed),
            Self::Revoked => Some(Reason::Revoked),
            Self::DeadlinePassed => Some(Reason::DeadlinePassed),
            Self::Bootstrapping | Self::WaitingForInput | Self::Transferring | Self::Success => None,
        }
    }
}

/// Why a request failed, agreed by the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The transfer broke.
    TransferFailed,
    /// The metadata row or a page does not match its checksum.
    Corrupt,
    /// The metadata row belongs to another leg.
    WrongLeg,
    /// The other group cannot be reached.
    HandshakeFailed,
    /// The other group gave the leg up.
    Revoked,
    /// The deadline passed.
    DeadlinePassed,
    /// The ranks were given different first tokens.
    FirstTokenDiffers,
    /// It needs more room than the group has, or asks for nothing.
    NeverFits,
}

impl Reason {
    /// Whether another attempt may well succeed: nothing is known against the request but that this one went wrong. A peer that cannot be
    /// reached may be about to start anew.
    #[must_use]
    pub fn is_of_one_attempt(self) -> bool {
        match self {
            Self::TransferFailed
            | Self::Corrupt
            | Self::WrongLeg
            | Self::HandshakeFailed
            | Self::Revoked
            | Self::FirstTokenDiffers => true,
            Self::DeadlinePassed | Self::NeverFits => false,
        }
    }

    /// The sentence a client reads.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::TransferFailed => "the transfer of its KV cache failed",
            Self::Corrupt => "its KV cache arrived corrupt",
            Self::WrongLeg => "the prefill side answered for another request",
            Self::HandshakeFailed => "the prefill side could not be reached",
            Self::Revoked => "the other side gave it up",
            Self::DeadlinePassed => "its KV cache did not arrive before the deadline",
            Self::FirstTokenDiffers => "the ranks were given different first tokens",
            Self::NeverFits => "it needs more KV pages than the group has, or asks for nothing",
        }
    }
}
