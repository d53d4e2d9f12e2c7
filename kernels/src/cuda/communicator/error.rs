//! What goes wrong with a communicator, always with the rank and the collective that it is about.

use std::fmt;
use std::time::Duration;

use cudarc::driver::DriverError;
use thiserror::Error;

use crate::cuda::available::Missing;
use crate::cuda::nccl::Trouble;

/// Why a communicator did not do what it was asked. It is of no use afterwards: abort it, and start the group anew.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommunicatorError {
    /// NCCL is not on this machine.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The driver does not do what the communicator needs of it.
    #[error("the CUDA driver could not {action} for {member}: {cause}")]
    Driver {
        /// The rank.
        member: Member,
        /// What was asked of it.
        action: &'static str,
        /// Its answer.
        cause: DriverError,
    },
    /// A rank that is not of the group, or too many ranks.
    #[error("{member} is no rank of a group; ranks are 0 to size - 1")]
    Member {
        /// The rank.
        member: Member,
    },
    /// A buffer of another device.
    #[error("a buffer of {member} for collective {collective} is of another device; upload it to this one")]
    Foreign {
        /// The rank.
        member: Member,
        /// The collective's number.
        collective: u64,
    },
    /// NCCL refuses, or failed since it was last asked.
    #[error(
        "NCCL cannot {action} for {member}, which has entered {entered} collectives ({cause}); see what NCCL_DEBUG=WARN \
         says, and start the group anew"
    )]
    Refused {
        /// The rank.
        member: Member,
        /// What was asked of it.
        action: &'static str,
        /// Collectives entered before.
        entered: u64,
        /// NCCL's code and words.
        cause: String,
    },
    /// A rank did not join, or NCCL did not get ready.
    #[error(
        "{member} could not {action} within {waited:?}; see that every rank of the group runs, with the same id and size"
    )]
    Late {
        /// The rank.
        member: Member,
        /// What was waited for.
        action: &'static str,
        /// For how long.
        waited: Duration,
    },
    /// A collective does not end.
    #[error(
        "{member} waited {waited:?} in vain for collective {first} to {last}: a peer has not entered it, or is dead; abort, \
         and start the group anew"
    )]
    Stuck {
        /// The rank.
        member: Member,
        /// The first collective that is not known to have ended.
        first: u64,
        /// The last that was entered.
        last: u64,
        /// For how long it was waited.
        waited: Duration,
    },
    /// A graph has collectives of a communicator that is to be finished; NCCL would wait for it.
    #[error("{member} cannot leave its group while {graphs} graphs have its collectives; drop them first")]
    Graphs {
        /// The rank.
        member: Member,
        /// Graphs.
        graphs: usize,
    },
    /// Somebody aborted it.
    #[error(
        "the communicator of {member} was aborted after it had entered collective {entered}, whose result is void; start the \
         group anew"
    )]
    Aborted {
        /// The rank.
        member: Member,
        /// Collectives entered.
        entered: u64,
    },
    /// The abort itself does not end.
    #[error("NCCL did not abort the communicator of {member} within {waited:?}; end the process")]
    AbortHangs {
        /// The rank.
        member: Member,
        /// For how long it was waited.
        waited: Duration,
    },
}

/// A rank and the size of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The rank, from 0.
    pub rank: usize,
    /// Ranks of the group.
    pub size: usize,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.size)
    }
}

impl Trouble {
    pub(super) fn during(self, member: Member, action: &'static str, entered: u64) -> CommunicatorError {
        match self {
            Self::Gone => CommunicatorError::Aborted { member, entered },
            Self::Refused(cause) => CommunicatorError::Refused { member, action, entered, cause },
        }
    }
}
