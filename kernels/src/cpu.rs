//! The kernels' own sources on the CPU, for tests: compiled by g++ with `shim/`, run in a process of their own.
//!
//! Each thread of a block is a fiber. Divergent barriers and races on shared memory end a launch with an error that
//! names the threads; with [`Sanitizers::On`], so does any access beyond a buffer. Slow, and not for serving.
//!
//! Reading order: [`compile`] makes a [`Program`] of sources, [`process`] runs it as a [`Device`](crate::Device).

pub mod compile;
pub mod process;

pub use compile::{CompileError, Compiler, Library, Program, Sanitizers, Source};
pub use process::{Cpu, CpuBuffer, CpuError};
