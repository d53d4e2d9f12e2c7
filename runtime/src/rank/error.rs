//! What ends a rank, sorted by blame.

use crate::engine::{BackendError, CacheError, ConfigError, ForwardError, ModelError};
use crate::fabric::FabricError;
use crate::group::GroupError;
use crate::wire::{RankToFront, WireError};
use lockstep_kernels::cuda::CudaError;
use lockstep_spec::configuration::ConfigurationError;
use lockstep_spec::fault::Fault;
use lockstep_spec::ticket::Ticket;

/// Why a rank ends before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum RankError {
    /// A peer of the group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The group as a whole broke the protocol.
    #[error("{0}; the group ends: compare what each of its ranks entered last")]
    Protocol(#[from] Fault),
    /// The device of this rank.
    #[error("the device of this rank failed: {0}")]
    Device(#[from] ForwardError),
    /// The KV cache of this rank.
    #[error("the KV cache of this rank failed: {0}")]
    Cache(#[from] CacheError),
    /// The KV fabric.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The front end.
    #[error(transparent)]
    Front(#[from] WireError),
    /// The engine of this rank.
    #[error("the engine of this rank does not start: {0}")]
    Backend(#[from] BackendError),
    /// The CUDA device of this rank.
    #[error("the device of this rank does not open: {0}")]
    Cuda(#[from] CudaError),
    /// The model's directory.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's configuration.
    #[error(transparent)]
    ModelConfiguration(#[from] ConfigError),
    /// The group's configuration.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The class of this group is not covered by a proof.
    #[error("{0}")]
    Unproved(String),
    /// A thread of this rank ended.
    #[error("the {0} of this rank is gone; see its log")]
    ThreadGone(&'static str),
    /// A thread could not be started.
    #[error("starting the {0} of this rank: {1}")]
    Thread(&'static str, std::io::Error),
    /// The pool is larger than one forward's collectives can carry.
    #[error(
        "{positions} positions of {hidden} values are more than one all-reduce carries (4 GiB); lower --pages or --page-size"
    )]
    TooManyPages {
        /// Positions of the pool.
        positions: u64,
        /// Values of a position.
        hidden: usize,
    },
    /// The trace's file.
    #[error("the trace cannot be begun: {0}; name an empty directory that can be written with --trace")]
    Trace(std::io::Error),
    /// The device hangs.
    #[error(
        "a forward was launched {seconds} s ago, and the device of this rank has not finished it: see whether it hangs"
    )]
    ForwardHangs {
        /// Age of the forward.
        seconds: u64,
    },
    /// A rank did not join the communicator that the operator asked for.
    #[error(
        "not every rank of the group joined NCCL's communicator, as --collectives nccl demands: see the ranks' log for the reason, or use --collectives auto"
    )]
    NotJoined,
    /// A rank did not capture the forwards that the operator wants replayed.
    #[error(
        "not every rank of the decode group captured its forwards, as --graphs on demands: see the ranks' log for the reason, or use --graphs auto"
    )]
    NotCaptured,
    /// The group started, and this rank was not told to take memory for pages.
    #[error("the group started before this rank had pages")]
    NoCache,
    /// A page is to come back from the host, and was never copied there.
    #[error("page {0} of the host was never written")]
    NoHostPage(lockstep_spec::ids::HostPageId),
    /// The machine launched a forward and named no plan.
    #[error("a forward was entered without its plan")]
    NoPlan,
    /// The rank's device is not told what it must know.
    #[error("a forward names {0}, of which this rank has no tokens")]
    NoTokens(lockstep_spec::ids::SlotIndex),
}

impl RankError {
    /// Whether a peer, and not this rank's own device, is to blame.
    fn of_a_peer(&self) -> bool {
        matches!(self, Self::Group(_) | Self::Device(ForwardError::Collective(_)))
    }

    /// Keeps a failure of this rank's own device, to be voted; a peer's ends the rank at once.
    pub(super) fn own(self) -> Result<Self, Self> {
        if self.of_a_peer() { Err(self) } else { Ok(self) }
    }

    /// The rank's last words, with the peer that did not come and the ticket that it entered last.
    pub(super) fn last_words(&self, last: Option<Ticket>) -> RankToFront {
        let (missing, theirs) = match self {
            Self::Group(error) => missing(error),
            Self::Device(ForwardError::Collective(error)) => {
                error.cause().downcast_ref::<GroupError>().map_or((None, None), missing)
            }
            Self::Protocol(_)
            | Self::Device(_)
            | Self::Cache(_)
            | Self::Fabric(_)
            | Self::Front(_)
            | Self::Backend(_)
            | Self::Cuda(_)
            | Self::Model(_)
            | Self::ModelConfiguration(_)
            | Self::Configuration(_)
            | Self::Unproved(_)
            | Self::ThreadGone(_)
            | Self::Thread(..)
            | Self::TooManyPages { .. }
            | Self::Trace(_)
            | Self::ForwardHangs { .. }
            | Self::NotJoined
            | Self::NotCaptured
            | Self::NoCache
            | Self::NoHostPage(_)
            | Self::NoPlan
            | Self::NoTokens(_) => (None, None),
        };
        RankToFront::Fatal {
            text: self.to_string(),
            missing_rank: missing,
            last_ticket: theirs.or_else(|| last.map(|ticket| ticket.to_string())),
        }
    }
}

fn missing(error: &GroupError) -> (Option<u32>, Option<String>) {
    match error {
        GroupError::Missing { rank, last, .. }
        | GroupError::Gone { rank, last }
        | GroupError::Relayed { rank, last, .. } => {
            (u32::try_from(*rank).ok(), last.map(|tag| tag.to_string()))
        }
        GroupError::Mismatch { rank, theirs, .. } => (u32::try_from(*rank).ok(), Some(theirs.to_string())),
        GroupError::MixedOperation { .. }
        | GroupError::UnequalLength { .. }
        | GroupError::Oversize { .. }
        | GroupError::Malformed { .. }
        | GroupError::Differs { .. }
        | GroupError::Duplicate { .. }
        | GroupError::Misuse(_)
        | GroupError::Io { .. } => (None, None),
    }
}
