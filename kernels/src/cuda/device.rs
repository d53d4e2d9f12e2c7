//! A device with the kernels loaded, and one typed method a kernel.
//!
//! A method checks the shape against the buffers, so that a kernel never reads or writes beyond them, and enqueues the
//! launch on the device's stream. It returns before the kernel has run.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use thiserror::Error;

use super::available::{Missing, device_available};
use crate::kernel::{Architecture, Kernel};
use crate::launch::{Launch, RmsNorm, VoteMin};

/// A reason that a device was not opened, or a kernel not launched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// A buffer's length does not fit the shape.
    #[error("the {buffer} of {kernel} has {found} elements; its shape needs exactly {expected}")]
    Length {
        /// The kernel that was not launched.
        kernel: Kernel,
        /// The buffer's name.
        buffer: &'static str,
        /// Elements that the shape needs.
        expected: u64,
        /// Elements that the buffer has.
        found: u64,
    },
    /// A buffer of another device.
    #[error("the {buffer} of {kernel} belongs to another device; allocate it on this device's stream")]
    Foreign {
        /// The kernel that was not launched.
        kernel: Kernel,
        /// The buffer's name.
        buffer: &'static str,
    },
    /// A device older than every architecture that PTX is committed for.
    #[error("the device has compute capability {major}.{minor}; {oldest} or later is needed", oldest = Architecture::Sm80)]
    TooOld {
        /// The device's major capability.
        major: i32,
        /// The device's minor capability.
        minor: i32,
    },
    /// Nothing to run on.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A refusal by the driver.
    #[error("the CUDA driver could not {action}: {cause}")]
    Driver {
        /// What was asked of it.
        action: &'static str,
        /// Its answer.
        cause: DriverError,
    },
}

/// An open device: its context, one stream, and every kernel loaded.
#[derive(Debug)]
pub struct Device {
    stream: Arc<CudaStream>,
    rmsnorm: CudaFunction,
    vote_min: CudaFunction,
}

impl Device {
    /// Opens the device with this index and loads every kernel, for the newest architecture that it runs.
    ///
    /// # Errors
    /// If the driver or the device is missing or too old, or the driver refuses the PTX.
    pub fn open(ordinal: usize) -> Result<Self, DeviceError> {
        device_available()?;
        let context = CudaContext::new(ordinal).map_err(refused("open the device"))?;
        let (major, minor) = context.compute_capability().map_err(refused("say the device's capability"))?;
        let architecture =
            Architecture::newest_for((major, minor)).ok_or(DeviceError::TooOld { major, minor })?;
        Ok(Self {
            stream: context.new_stream().map_err(refused("make a stream"))?,
            rmsnorm: load(&context, Kernel::RmsNorm, architecture)?,
            vote_min: load(&context, Kernel::VoteMin, architecture)?,
        })
    }

    /// The stream that every launch is enqueued on, and that buffers are made and copied with.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Enqueues `output = input * weight / sqrt(mean(input^2) + epsilon)`, row by row.
    ///
    /// # Errors
    /// If a buffer's length or device does not fit, or the driver refuses the launch.
    pub fn rmsnorm(
        &self,
        shape: RmsNorm,
        output: &mut CudaSlice<f32>,
        input: &CudaSlice<f32>,
        weight: &CudaSlice<f32>,
        epsilon: f32,
    ) -> Result<(), DeviceError> {
        self.check(Kernel::RmsNorm, "output", output, shape.elements())?;
        self.check(Kernel::RmsNorm, "input", input, shape.elements())?;
        self.check(Kernel::RmsNorm, "weight", weight, shape.width().into())?;
        let width = shape.width();
        let mut launch = self.stream.launch_builder(&self.rmsnorm);
        launch.arg(output).arg(input).arg(weight).arg(&width).arg(&epsilon);
        // SAFETY: the arguments are those of the kernel's signature, and the buffers have the lengths it indexes.
        unsafe { launch.launch(shape.launch().into()) }.map_err(refused("launch rmsnorm"))?;
        Ok(())
    }

    /// Enqueues `output[element] = min over ranks of votes[rank, element]`.
    ///
    /// # Errors
    /// If a buffer's length or device does not fit, or the driver refuses the launch.
    pub fn vote_min(
        &self,
        shape: VoteMin,
        output: &mut CudaSlice<u64>,
        votes: &CudaSlice<u64>,
    ) -> Result<(), DeviceError> {
        self.check(Kernel::VoteMin, "output", output, shape.width().into())?;
        self.check(Kernel::VoteMin, "votes", votes, shape.elements())?;
        let (ranks, width) = (shape.ranks(), shape.width());
        let mut launch = self.stream.launch_builder(&self.vote_min);
        launch.arg(output).arg(votes).arg(&ranks).arg(&width);
        // SAFETY: the arguments are those of the kernel's signature, and the buffers have the lengths it indexes.
        unsafe { launch.launch(shape.launch().into()) }.map_err(refused("launch vote_min"))?;
        Ok(())
    }

    /// Refuses a buffer that a kernel must not be given.
    fn check<T>(
        &self,
        kernel: Kernel,
        buffer: &'static str,
        slice: &CudaSlice<T>,
        expected: u64,
    ) -> Result<(), DeviceError> {
        if slice.context() != self.stream.context() {
            return Err(DeviceError::Foreign { kernel, buffer });
        }
        let found = slice.len() as u64;
        if found == expected { Ok(()) } else { Err(DeviceError::Length { kernel, buffer, expected, found }) }
    }
}

impl From<Launch> for LaunchConfig {
    fn from(launch: Launch) -> Self {
        let [x, y] = launch.threads;
        Self { grid_dim: (launch.blocks, 1, 1), block_dim: (x, y, 1), shared_mem_bytes: launch.shared_bytes }
    }
}

/// Loads one kernel's PTX and finds its entry.
fn load(
    context: &Arc<CudaContext>,
    kernel: Kernel,
    architecture: Architecture,
) -> Result<CudaFunction, DeviceError> {
    let ptx = Ptx::from_src(kernel.ptx(architecture));
    let module = context.load_module(ptx).map_err(refused("load a kernel's PTX"))?;
    module.load_function(kernel.entry()).map_err(refused("find a kernel's entry"))
}

/// A driver's answer, with what was asked of it.
fn refused(action: &'static str) -> impl Fn(DriverError) -> DeviceError {
    move |cause| DeviceError::Driver { action, cause }
}
