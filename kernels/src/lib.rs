//! CUDA C++ kernels of Lockstep, their PTX, and their launch on a device.
//!
//! ```text
//! cuda/*.cu ──build_ptx.py──▶ ptx/*.ptx ──include_str!──▶ kernel::Kernel ──▶ cuda::Device   (feature `cuda`)
//!     └─────g++ + shim/─────▶ a process on the CPU        (tests/cpu_execution.rs)
//! ```
//!
//! Reading order: [`kernel`] is the table of what exists, [`launch`] says how wide each kernel runs, and the module
//! `cuda` puts both on a device. The same sources run on the CPU in the tests; **nothing here has ever run on a GPU**.

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod kernel;
pub mod launch;

pub use kernel::{Architecture, Element, Kernel, Parameter};
pub use launch::{Launch, RmsNorm, ShapeError, VoteMin};
