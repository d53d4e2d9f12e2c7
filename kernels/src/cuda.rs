//! Launches of the kernels on a CUDA device, behind the feature `cuda`.
//!
//! **This module has never run on a GPU.** It is compiled, and its answers on a machine without CUDA are tested.
//! Libraries are found at run time: a binary with this feature builds and starts on a machine without CUDA.
//!
//! Reading order: [`available`] says whether there is something to run on, [`device`] opens it and launches,
//! [`communicator`] joins it with those of other ranks, and `grouped` is what the engine sees of that; [`graph`] captures
//! what a device is asked and replays it; [`fetch`] brings values to the host while it goes on. [`survey`] tells what there is.

pub mod available;
pub mod communicator;
pub mod device;
pub mod fetch;
pub mod graph;
mod grouped;
mod lane;
mod nccl;
pub mod survey;

pub use available::{Missing, collectives_available, device_count};
pub use communicator::{Communicator, CommunicatorError, GroupId, Member, Watch};
pub use device::{Cuda, CudaBuffer, CudaError};
pub use fetch::Fetch;
pub use graph::{Fence, Graph};
