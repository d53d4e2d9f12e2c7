//! The way between the ranks' devices: a communicator of their own, where the group has agreed on one, or none.

use std::time::Duration;

use lockstep_kernels::Device;
use lockstep_kernels::cuda::{
    Communicator, Cuda, CudaBuffer, GroupId, Member, Reduction, collectives_available,
};

use crate::engine::all_reduce::CollectiveError;
use crate::engine::backend::{BackendError, CommunicatorName};

/// What joins a device with those of the other ranks.
pub trait Link<D: Device>: Send + 'static {
    /// Whether a communicator could be joined.
    ///
    /// # Errors
    /// Why not.
    fn can_join(&self) -> Result<(), BackendError>;

    /// A fresh name for a communicator.
    ///
    /// # Errors
    /// Why there is none.
    fn name(&mut self) -> Result<CommunicatorName, BackendError>;

    /// Joins the communicator of this name as rank `rank` of `size`.
    ///
    /// # Errors
    /// What went wrong, within `patience`.
    fn join(
        &mut self,
        device: &D,
        name: &CommunicatorName,
        seat: [usize; 2],
        patience: Duration,
    ) -> Result<(), BackendError>;

    /// Gives up what was joined.
    fn leave(&mut self);

    /// Enqueues the sum over the ranks behind what the device has been asked before; `false` if no communicator was joined.
    ///
    /// # Errors
    /// If it is refused.
    fn all_reduce_sum(&mut self, summand: &mut D::Buffer) -> Result<bool, CollectiveError>;

    /// Waits until everything that was enqueued has ended, if a communicator was joined.
    ///
    /// # Errors
    /// If a peer does not come in time, or something enqueued failed.
    fn wait(&mut self) -> Result<(), CollectiveError>;
}

/// No way: summands meet between the hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostsOnly;

impl HostsOnly {
    fn refusal() -> BackendError {
        BackendError::new("the devices' summands are to meet between the hosts")
    }
}

impl<D: Device> Link<D> for HostsOnly {
    fn can_join(&self) -> Result<(), BackendError> {
        Err(Self::refusal())
    }

    fn name(&mut self) -> Result<CommunicatorName, BackendError> {
        Err(Self::refusal())
    }

    fn join(&mut self, _: &D, _: &CommunicatorName, _: [usize; 2], _: Duration) -> Result<(), BackendError> {
        Err(Self::refusal())
    }

    fn leave(&mut self) {}

    fn all_reduce_sum(&mut self, _: &mut D::Buffer) -> Result<bool, CollectiveError> {
        Ok(false)
    }

    fn wait(&mut self) -> Result<(), CollectiveError> {
        Ok(())
    }
}

/// NCCL between CUDA devices. **Never run on a GPU**; the tests run it over a stand-in.
#[derive(Debug)]
pub struct Nccl {
    communicator: Option<Communicator>,
    /// How long what was enqueued may take: a peer may not have come.
    deadline: Duration,
}

impl Nccl {
    /// A link that is not joined yet; each forward must end within `deadline`.
    #[must_use]
    pub fn new(deadline: Duration) -> Self {
        Self { communicator: None, deadline }
    }
}

impl Link<Cuda> for Nccl {
    fn can_join(&self) -> Result<(), BackendError> {
        collectives_available().map_err(BackendError::new)
    }

    fn name(&mut self) -> Result<CommunicatorName, BackendError> {
        GroupId::new().map(|GroupId(name)| name).map_err(BackendError::new)
    }

    fn join(
        &mut self,
        device: &Cuda,
        name: &CommunicatorName,
        [rank, size]: [usize; 2],
        patience: Duration,
    ) -> Result<(), BackendError> {
        let joined = Communicator::join(device, &GroupId(*name), Member { rank, size }, patience);
        self.communicator = Some(joined.map_err(BackendError::new)?);
        Ok(())
    }

    fn leave(&mut self) {
        self.communicator = None;
    }

    fn all_reduce_sum(&mut self, summand: &mut CudaBuffer) -> Result<bool, CollectiveError> {
        let Some(communicator) = &mut self.communicator else { return Ok(false) };
        communicator.all_reduce(Reduction::Sum, summand).map_err(CollectiveError::new)?;
        Ok(true)
    }

    fn wait(&mut self) -> Result<(), CollectiveError> {
        let Self { communicator, deadline } = self;
        communicator
            .as_mut()
            .map_or(Ok(()), |communicator| communicator.wait(*deadline))
            .map_err(CollectiveError::new)
    }
}
