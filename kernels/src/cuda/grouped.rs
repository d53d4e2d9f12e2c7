//! CUDA devices in a group: NCCL's collectives on each device's stream.

use std::time::Duration;

use super::available::collectives_available;
use super::communicator::{Communicator, GroupId, Member, poll};
use super::device::{Cuda, CudaBuffer, CudaError};
use super::fetch::Fetch;
use crate::device::Device;
use crate::element::Plain;
use crate::group::{GroupTrouble, Grouped, NAME_BYTES, Reduction, Seat};

impl Grouped for Cuda {
    type Fetch<T: Plain> = Fetch<T>;

    fn fetch<T: Plain>(&mut self, buffer: &CudaBuffer) -> Result<Fetch<T>, GroupTrouble> {
        Ok(self.send_for(buffer)?)
    }

    fn fetched<T: Plain>(&mut self, fetch: &mut Fetch<T>) -> Result<Option<Vec<T>>, GroupTrouble> {
        self.take(fetch)
    }

    fn joins(&self) -> Result<(), GroupTrouble> {
        Ok(collectives_available()?)
    }

    fn name_group(&mut self) -> Result<[u8; NAME_BYTES], GroupTrouble> {
        Ok(GroupId::new()?.0)
    }

    fn join(&mut self, name: &[u8; NAME_BYTES], seat: Seat, patience: Duration) -> Result<(), GroupTrouble> {
        let member = Member { rank: seat.rank, size: seat.size };
        let mut communicator = Communicator::join(self, &GroupId(*name), member, patience)?;
        // NCCL connects the ranks with their first collective, which takes longer than any other: not one of a forward.
        let mut ranks = self.upload(&[1.0f32])?;
        communicator.all_reduce(Reduction::Sum, &mut ranks)?;
        communicator.wait(patience)?;
        #[expect(clippy::cast_precision_loss, reason = "ranks are few")]
        if self.download::<f32>(&ranks)? != [seat.size as f32] {
            return Err("the first sum of the group's devices is not the number of its ranks".into());
        }
        self.communicator = Some(communicator);
        Ok(())
    }

    fn has_joined(&self) -> bool {
        self.communicator.is_some()
    }

    fn leave(&mut self) {
        self.communicator = None;
    }

    fn all_reduce(&mut self, reduction: Reduction, buffer: &mut CudaBuffer) -> Result<bool, GroupTrouble> {
        let Some(communicator) = &mut self.communicator else { return Ok(false) };
        communicator.all_reduce(reduction, buffer)?;
        Ok(true)
    }

    fn settle(&mut self, deadline: Duration) -> Result<(), GroupTrouble> {
        match &mut self.communicator {
            Some(communicator) => Ok(communicator.wait(deadline)?),
            None => {
                let mark = self.fence()?;
                let settled = poll(deadline, || mark.reached())?;
                if settled { Ok(()) } else { Err(CudaError::Unsettled { waited: deadline }.into()) }
            }
        }
    }
}
