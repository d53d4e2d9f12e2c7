//! CUDA devices in a group: NCCL's collectives on each device's stream.

use std::time::Duration;

use super::available::collectives_available;
use super::communicator::{Communicator, GroupId, Member, Reduction};
use super::device::{Cuda, CudaBuffer};
use crate::group::{GroupTrouble, Grouped, NAME_BYTES, Seat};

impl Grouped for Cuda {
    fn joins(&self) -> Result<(), GroupTrouble> {
        Ok(collectives_available()?)
    }

    fn name_group(&mut self) -> Result<[u8; NAME_BYTES], GroupTrouble> {
        Ok(GroupId::new()?.0)
    }

    fn join(&mut self, name: &[u8; NAME_BYTES], seat: Seat, patience: Duration) -> Result<(), GroupTrouble> {
        let member = Member { rank: seat.rank, size: seat.size };
        self.communicator = Some(Communicator::join(self, &GroupId(*name), member, patience)?);
        Ok(())
    }

    fn leave(&mut self) {
        self.communicator = None;
    }

    fn all_reduce_sum(&mut self, summand: &mut CudaBuffer) -> Result<bool, GroupTrouble> {
        let Some(communicator) = &mut self.communicator else { return Ok(false) };
        communicator.all_reduce(Reduction::Sum, summand)?;
        Ok(true)
    }

    fn settle(&mut self, deadline: Duration) -> Result<(), GroupTrouble> {
        match &mut self.communicator {
            Some(communicator) => Ok(communicator.wait(deadline)?),
            None => Ok(()),
        }
    }
}
