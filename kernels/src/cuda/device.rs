//! A CUDA device with the kernels loaded, as a [`Device`]: operations are enqueued on its one stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result::{memcpy_htod_async, memset_d8_async};
use cudarc::driver::sys::{CUdeviceptr, CUresult};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr,
    DriverError, LaunchArgs, LaunchConfig, PushKernelArg, SyncOnDrop,
};
use cudarc::nvrtc::Ptx;
use thiserror::Error;

use super::available::{Missing, device_count};
use super::communicator::{Communicator, CommunicatorError};
use super::fetch::Landing;
use super::lane::Lane;
use crate::architecture::Architecture;
use crate::call::{Argument, Buffer, Call, CallError};
use crate::device::{Device, UNWRITTEN};
use crate::element::{Element, Plain};
use crate::kernel::Entry;
use crate::launch::Launch;

/// Bytes of pageable memory that a copy to the device takes over without waiting for the stream (CUDA programming guide, asynchronous
/// concurrent execution).
const ASYNCHRONOUS_BYTES: usize = 64 << 10;

/// More than any page or batch has: weights, before which the device has nothing to do.
const LARGEST_IN_PIECES: usize = 64 << 20;

/// Fields of the longest structure that a kernel takes.
const MAX_FIELDS: usize = 8;

/// A reason that a device was not opened, or an operation not enqueued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CudaError {
    /// Arguments that do not fit one another.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Bytes that are not whole elements.
    #[error("{bytes} bytes are not whole elements of type {element}")]
    Bytes {
        /// Number of bytes.
        bytes: usize,
        /// The element type.
        element: Element,
    },
    /// A buffer of another device.
    #[error("a buffer of {entry} belongs to another device; upload it to this one")]
    Foreign {
        /// The entry point that was not launched.
        entry: Entry,
    },
    /// A buffer of another device, outside an operation.
    #[error("a buffer belongs to another device; upload it to this one")]
    ForeignBuffer,
    /// A device older than every architecture that PTX is committed for.
    #[error("the device has compute capability {major}.{minor}; {oldest} or later is needed", oldest = Architecture::Sm80)]
    TooOld {
        /// The device's major capability.
        major: i32,
        /// The device's minor capability.
        minor: i32,
    },
    /// Values that do not fill a buffer, or are of another type.
    #[error(
        "{given} bytes of type {element} do not replace a buffer's {held} bytes of type {of}; give as many of its type"
    )]
    Overwrite {
        /// Bytes given.
        given: usize,
        /// Their type.
        element: Element,
        /// Bytes of the buffer.
        held: usize,
        /// Its type.
        of: Element,
    },
    /// Something that cannot be part of a graph.
    #[error("a graph that is being captured cannot {action}; do it before or after the capture")]
    Capturing {
        /// What was asked.
        action: &'static str,
    },
    /// A capture of nothing.
    #[error("nothing was captured; a graph needs an operation")]
    EmptyGraph,
    /// Work that takes too long.
    #[error("the device has not done what it was asked within {waited:?}")]
    Unsettled {
        /// How long it was waited for.
        waited: Duration,
    },
    /// A communicator whose collectives a graph has.
    #[error(transparent)]
    Group(#[from] CommunicatorError),
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

/// An open device: its context, one stream, and every entry point loaded.
#[derive(Debug)]
pub struct Cuda {
    /// Its group, while it is in one.
    pub(super) communicator: Option<Communicator>,
    pub(super) lane: Arc<Lane>,
    /// That no fetch uses.
    pub(super) landings: Vec<Landing>,
    functions: BTreeMap<Entry, CudaFunction>,
}

/// Memory of a device.
#[derive(Debug)]
pub struct CudaBuffer {
    element: Element,
    /// Elements in use; the memory may hold more.
    length: u64,
    /// Shared with the graphs that use it. It is freed in the order of the stream.
    memory: Arc<CudaSlice<u8>>,
}

/// A structure as the driver takes it: it copies as many of the fields as the kernel declares.
#[derive(Clone, Copy)]
#[repr(C)]
struct Fields([u32; MAX_FIELDS]);

// SAFETY: an array of u32 has the layout of every structure of fewer u32 that a kernel declares.
unsafe impl DeviceRepr for Fields {}

impl Cuda {
    /// Opens the device with this index and loads every kernel, for the newest architecture that it runs.
    ///
    /// # Errors
    /// If the driver or the device is missing or too old, or the driver refuses the PTX.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        device_count()?;
        let context = CudaContext::new(ordinal).map_err(refused("open the device"))?;
        let (major, minor) = context.compute_capability().map_err(refused("say the device's capability"))?;
        let architecture =
            Architecture::newest_for((major, minor)).ok_or(CudaError::TooOld { major, minor })?;
        // SAFETY: all work on a buffer, its release included, is enqueued on the one stream below, which orders it. Events
        // between uses would only end a capture, since they lie outside it.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(refused("make a stream"))?;
        let lane = Arc::new(Lane::new(stream));
        Ok(Self {
            communicator: None,
            lane,
            landings: Landing::first(&context)?,
            functions: load_all(&context, architecture)?,
        })
    }

    /// The stream that everything is enqueued on; collectives belong on it too.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.lane.stream
    }

    /// The device's name, as the driver tells it.
    ///
    /// # Errors
    /// If it does not.
    pub fn name(&self) -> Result<String, CudaError> {
        self.stream().context().name().map_err(refused("say the device's name"))
    }

    pub(super) fn refuse_in_capture(&self, action: &'static str) -> Result<(), CudaError> {
        if self.lane.is_capturing() { Err(CudaError::Capturing { action }) } else { Ok(()) }
    }

    /// Fills a buffer of this device that has as many bytes, in pieces that do not wait for what the device has to do before, unless it
    /// is a weight.
    fn copy_in(&self, buffer: &CudaBuffer, bytes: &[u8]) -> Result<(), CudaError> {
        let (address, enqueued) = buffer.address(self.stream());
        let piece = if bytes.len() > LARGEST_IN_PIECES { bytes.len() } else { ASYNCHRONOUS_BYTES };
        let mut pieces = (address..).step_by(piece).zip(bytes.chunks(piece));
        let copied = pieces.try_for_each(|(address, piece)| {
            // SAFETY: the buffer has as many bytes. The driver copies them out of pageable memory before it returns.
            unsafe { memcpy_htod_async(address, piece, self.stream().cu_stream()) }
        });
        drop(enqueued);
        copied.map_err(refused("copy to the device"))
    }

    fn check(&self, entry: Entry, buffer: &CudaBuffer) -> Result<(), CudaError> {
        match buffer.is_of(self.stream()) {
            true => Ok(()),
            false => Err(CudaError::Foreign { entry }),
        }
    }

    fn check_all(&self, call: &Call<'_, CudaBuffer>) -> Result<(), CudaError> {
        call.arguments.iter().filter_map(buffer_of).try_for_each(|buffer| self.check(call.entry, buffer))
    }
}

impl Device for Cuda {
    type Buffer = CudaBuffer;
    type Error = CudaError;

    fn upload_bytes(&mut self, element: Element, bytes: &[u8]) -> Result<CudaBuffer, CudaError> {
        if !(bytes.len() as u64).is_multiple_of(element.bytes()) {
            return Err(CudaError::Bytes { bytes: bytes.len(), element });
        }
        self.refuse_in_capture("upload")?;
        // SAFETY: it is written, in the order of the stream, before anything else on it can read it.
        let memory = unsafe { self.stream().alloc(bytes.len()) }.map_err(refused("make a buffer"))?;
        let length = bytes.len() as u64 / element.bytes();
        let buffer = CudaBuffer { element, length, memory: Arc::new(memory) };
        self.copy_in(&buffer, bytes)?;
        Ok(buffer)
    }

    fn unwritten(&mut self, element: Element, length: u64) -> Result<CudaBuffer, CudaError> {
        self.refuse_in_capture("make a buffer")?;
        let bytes = usize::try_from(length.saturating_mul(element.bytes()));
        let bytes = bytes.map_err(|_| DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        let filled = bytes.and_then(|bytes| unwritten(self.stream(), bytes));
        let memory = filled.map_err(refused("make a buffer"))?;
        Ok(CudaBuffer { element, length, memory: Arc::new(memory) })
    }

    fn resize(&mut self, buffer: &mut CudaBuffer, length: u64) -> Result<(), CudaError> {
        if buffer.room() < length {
            *buffer = self.unwritten(buffer.element, length)?;
        }
        buffer.length = length;
        Ok(())
    }

    fn overwrite_bytes(
        &mut self,
        buffer: &mut CudaBuffer,
        element: Element,
        bytes: &[u8],
    ) -> Result<(), CudaError> {
        self.refuse_in_capture("overwrite a buffer")?;
        buffer.check_overwrite(self.stream(), element, bytes.len())?;
        self.copy_in(buffer, bytes)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.stream().context().mem_get_info().ok().map(|(free, _)| free as u64)
    }

    fn download_bytes(&mut self, buffer: &CudaBuffer) -> Result<Vec<u8>, CudaError> {
        self.refuse_in_capture("download")?;
        if !buffer.is_of(self.stream()) {
            return Err(CudaError::ForeignBuffer);
        }
        self.stream()
            .clone_dtoh(&buffer.memory.slice(..buffer.bytes()))
            .map_err(refused("copy from the device"))
    }

    fn launch(&mut self, call: Call<'_, CudaBuffer>) -> Result<(), CudaError> {
        self.check_all(&call)?;
        let Some(function) = self.functions.get(&call.entry) else {
            return Err(CallError::Value { reason: "the device was opened without this kernel" }.into());
        };
        let values: Vec<_> = call.arguments.iter().map(Passed::of).collect();
        let mut launch = self.lane.stream.launch_builder(function);
        for (argument, value) in call.arguments.iter().zip(&values) {
            if let Some(buffer) = buffer_of(argument) {
                self.lane.keep(&buffer.memory);
            }
            push(&mut launch, argument, value);
        }
        // SAFETY: a `Call` has the arguments of its kernel's signature, and its buffers have the lengths it indexes.
        unsafe { launch.launch(call.launch.into()) }.map_err(refused("launch a kernel"))?;
        Ok(())
    }
}

impl CudaBuffer {
    pub(super) fn is_of(&self, stream: &CudaStream) -> bool {
        self.memory.stream().cu_stream() == stream.cu_stream()
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        // Memory of this process's device, so they fit; all of it, if they did not.
        usize::try_from(self.length * self.element.bytes()).unwrap_or(self.memory.len())
    }

    /// Elements that the memory holds.
    fn room(&self) -> u64 {
        self.memory.len() as u64 / self.element.bytes()
    }

    /// Refuses what is not values of this type on the device of `stream`.
    pub(super) fn check_values<T: Plain>(&self, stream: &CudaStream) -> Result<(), CudaError> {
        match (self.is_of(stream), self.element == T::ELEMENT) {
            (true, true) => Ok(()),
            (true, false) => Err(CallError::OTHER_VALUES.into()),
            (false, _) => Err(CudaError::ForeignBuffer),
        }
    }

    /// Its memory, for a graph to keep.
    pub(super) fn memory(&self) -> &Arc<CudaSlice<u8>> {
        &self.memory
    }

    /// Its address for what is enqueued on `stream`; to be held until that is.
    pub(super) fn address<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.memory.device_ptr(stream)
    }

    pub(super) fn check_overwrite(
        &self,
        stream: &CudaStream,
        element: Element,
        given: usize,
    ) -> Result<(), CudaError> {
        let (held, of) = (self.bytes(), self.element);
        match (self.is_of(stream), given == held && element == of) {
            (true, true) => Ok(()),
            (true, false) => Err(CudaError::Overwrite { given, element, held, of }),
            (false, _) => Err(CudaError::ForeignBuffer),
        }
    }
}

impl Buffer for CudaBuffer {
    fn element(&self) -> Element {
        self.element
    }

    fn len(&self) -> u64 {
        self.length
    }
}

/// A value in memory that outlives its launch; buffers need none.
struct Passed {
    float: f32,
    fields: Fields,
}

impl Passed {
    fn of(argument: &Argument<'_, CudaBuffer>) -> Self {
        let mut fields = [0; MAX_FIELDS];
        let float = match argument {
            Argument::F32(number) => *number,
            Argument::Words(words) => {
                fields.iter_mut().zip(words).for_each(|(field, word)| *field = *word);
                0.0
            }
            Argument::Read(_) | Argument::Write(_) => 0.0,
        };
        Self { float, fields: Fields(fields) }
    }
}

fn buffer_of<'a>(argument: &'a Argument<'_, CudaBuffer>) -> Option<&'a CudaBuffer> {
    match argument {
        Argument::Read(buffer) => Some(buffer),
        Argument::Write(buffer) => Some(buffer),
        Argument::F32(_) | Argument::Words(_) => None,
    }
}

fn push<'a>(launch: &mut LaunchArgs<'a>, argument: &'a Argument<'_, CudaBuffer>, value: &'a Passed) {
    match argument {
        Argument::Read(buffer) => launch.arg(&*buffer.memory),
        Argument::Write(buffer) => launch.arg(&*buffer.memory),
        Argument::F32(_) => launch.arg(&value.float),
        Argument::Words(_) => launch.arg(&value.fields),
    };
}

impl From<Launch> for LaunchConfig {
    fn from(launch: Launch) -> Self {
        let ([x, y], [width, height]) = (launch.blocks, launch.threads);
        Self { grid_dim: (x, y, 1), block_dim: (width, height, 1), shared_mem_bytes: launch.shared_bytes }
    }
}

/// Loads every source's PTX once, and finds its entry points.
fn load_all(
    context: &Arc<CudaContext>,
    architecture: Architecture,
) -> Result<BTreeMap<Entry, CudaFunction>, CudaError> {
    let mut modules: BTreeMap<&str, Arc<CudaModule>> = BTreeMap::new();
    let mut functions = BTreeMap::new();
    for entry in Entry::all() {
        let source = entry.kernel().source();
        let module = match modules.get(source) {
            Some(module) => Arc::clone(module),
            None => {
                let ptx = Ptx::from_src(entry.kernel().ptx(architecture));
                context.load_module(ptx).map_err(refused("load a kernel's PTX"))?
            }
        };
        let function =
            module.load_function(&entry.to_string()).map_err(refused("find a kernel's entry point"))?;
        functions.insert(entry, function);
        modules.insert(source, module);
    }
    Ok(functions)
}

/// Memory in which every bit is one.
fn unwritten(stream: &Arc<CudaStream>, bytes: usize) -> Result<CudaSlice<u8>, DriverError> {
    // SAFETY: the memory is written, in the order of the stream, before anything else on it can read it.
    let mut memory = unsafe { stream.alloc::<u8>(bytes) }?;
    {
        let (pointer, _written) = memory.device_ptr_mut(stream);
        // SAFETY: the pointer is to as many bytes as are set; the context is current since the allocation.
        unsafe { memset_d8_async(pointer, UNWRITTEN, bytes, stream.cu_stream()) }?;
    }
    Ok(memory)
}

/// A driver's answer, with what was asked of it.
pub(super) fn refused(action: &'static str) -> impl Fn(DriverError) -> CudaError {
    move |cause| CudaError::Driver { action, cause }
}
