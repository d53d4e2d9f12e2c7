//! CUDA C++ kernels of Lockstep, their PTX, and their launch on a device.
//!
//! ```text
//! operations ──▶ Call ──▶ Device ──┬──▶ cuda::Cuda   the driver, with ptx/*.ptx      (feature `cuda`)
//! (shapes)     (checked)           └──▶ cpu::Cpu     a process, with cuda/*.cu compiled by g++ and shim/
//!
//! cuda/*.cu ──build_ptx.py──▶ ptx/*.ptx ──include_str!──▶ kernel::TABLE
//! ```
//!
//! Reading order: [`kernel`] is the table of what exists, [`operations`] are what a forward pass asks for, [`call`]
//! checks them against the table, [`launch`] bounds their extent, [`device`] runs them: [`cpu`], or the module `cuda`;
//! [`group`] is for devices that combine buffers among themselves.
//! [`wide`] is for the engine's own arithmetic on a CPU.
//! The tests run every kernel's source on the CPU; **nothing here has ever run on a GPU**.

pub mod architecture;
pub mod call;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod element;
pub mod group;
pub mod kernel;
pub mod launch;
pub mod operations;
pub mod wide;

pub use architecture::Architecture;
pub use call::{Buffer, Call, CallError};
pub use device::Device;
pub use element::{Element, Plain};
pub use group::{Captures, GroupTrouble, Grouped, NAME_BYTES, Reduction, Seat};
pub use kernel::{Entry, Kernel};
pub use launch::{Launch, LaunchError};
pub use operations::Operation;
