//! Devices of a group of ranks that combine buffers among themselves, in the order of each device's operations; and devices
//! that replay what they were asked once.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use crate::call::CallError;
use crate::cpu::{Cpu, CpuBuffer, CpuError};
use crate::device::Device;
use crate::element::Plain;

/// Why devices do not form a group, or one of them does not go on.
pub type GroupTrouble = Box<dyn Error + Send + Sync>;

/// Bytes of the name by which devices find each other.
pub const NAME_BYTES: usize = 128;

const BETWEEN_HOSTS: &str = "devices of this kind meet between the hosts only";

/// A device's place in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its rank, below the size.
    pub rank: usize,
    /// Devices of the group.
    pub size: usize,
}

/// What a reduction does with the ranks' elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The smallest: of votes, and of bids for tokens.
    Min,
    /// The sum: of the ranks' parts of a layer.
    Sum,
}

/// A device that may be in a group. By default it cannot: what its rank combines with others goes by way of the hosts.
pub trait Grouped: Device {
    /// Values on their way to the host.
    type Fetch<T: Plain>: Debug + Send;

    /// Sends for a buffer's values, as they are once every operation before has run. Does not wait.
    ///
    /// # Errors
    /// If the buffer has elements of another type, or the device refuses it.
    fn fetch<T: Plain>(&mut self, buffer: &Self::Buffer) -> Result<Self::Fetch<T>, GroupTrouble>;

    /// The values, once they are there; then no more. Does not wait.
    ///
    /// # Errors
    /// What a device of the group failed with.
    fn fetched<T: Plain>(&mut self, fetch: &mut Self::Fetch<T>) -> Result<Option<Vec<T>>, GroupTrouble>;

    /// Whether it can join a group.
    ///
    /// # Errors
    /// Why it cannot.
    fn joins(&self) -> Result<(), GroupTrouble> {
        Err(BETWEEN_HOSTS.into())
    }

    /// A fresh name for a group; one rank makes it, and it must live until all have joined.
    ///
    /// # Errors
    /// Why there is none.
    fn name_group(&mut self) -> Result<[u8; NAME_BYTES], GroupTrouble> {
        Err(BETWEEN_HOSTS.into())
    }

    /// Joins the group of this name; returns when all have joined.
    ///
    /// # Errors
    /// If not all have within `patience`, which bounds each wait of it: for the others, and for the first sum to be enqueued and to end.
    fn join(
        &mut self,
        _name: &[u8; NAME_BYTES],
        _seat: Seat,
        _patience: Duration,
    ) -> Result<(), GroupTrouble> {
        Err(BETWEEN_HOSTS.into())
    }

    /// Whether it is in a group.
    fn has_joined(&self) -> bool {
        false
    }

    /// Leaves its group, if it is in one, without a word to the others.
    fn leave(&mut self) {}

    /// Combines a buffer with those of the group, element by element and in place, now or later but in order; `false` if it is in none.
    ///
    /// # Errors
    /// If the device refuses it. That a peer does not come shows in [`settle`](Self::settle).
    fn all_reduce(&mut self, _: Reduction, _buffer: &mut Self::Buffer) -> Result<bool, GroupTrouble> {
        Ok(false)
    }

    /// Waits until every operation before has run.
    ///
    /// # Errors
    /// What a device of the group failed with, or that a peer has not come within `deadline`.
    fn settle(&mut self, _deadline: Duration) -> Result<(), GroupTrouble> {
        Ok(())
    }
}

/// A device that may capture what it is asked, collectives of its group included, to be replayed with one call.
pub trait Captures: Device {
    /// What was captured. It names buffers, not their content, and keeps them.
    type Graph: Debug + Send;

    /// Captures what is asked from now on, without running it.
    ///
    /// # Errors
    /// Why it cannot.
    fn begin_capture(&mut self) -> Result<(), Self::Error>;

    /// Ends the capture.
    ///
    /// # Errors
    /// If something was asked meanwhile that cannot be captured, or nothing.
    fn end_capture(&mut self) -> Result<Self::Graph, Self::Error>;

    /// Runs everything that was captured, now or later but in order.
    ///
    /// # Errors
    /// If the device refuses it, or a collective of it cannot be entered any more.
    fn replay(&mut self, graph: &Self::Graph) -> Result<(), GroupTrouble>;
}

impl Grouped for Cpu {
    type Fetch<T: Plain> = Option<Vec<T>>;

    fn fetch<T: Plain>(&mut self, buffer: &CpuBuffer) -> Result<Option<Vec<T>>, GroupTrouble> {
        Ok(Some(self.download(buffer)?))
    }

    fn fetched<T: Plain>(&mut self, fetch: &mut Option<Vec<T>>) -> Result<Option<Vec<T>>, GroupTrouble> {
        Ok(fetch.take())
    }
}

impl Captures for Cpu {
    type Graph = Infallible;

    fn begin_capture(&mut self) -> Result<(), CpuError> {
        Err(CallError::Value { reason: "only CUDA captures; run each operation" }.into())
    }

    fn end_capture(&mut self) -> Result<Infallible, CpuError> {
        Err(CallError::Value { reason: "nothing is being captured" }.into())
    }

    fn replay(&mut self, graph: &Infallible) -> Result<(), GroupTrouble> {
        match *graph {}
    }
}
