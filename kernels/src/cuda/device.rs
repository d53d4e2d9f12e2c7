//! A CUDA device with the kernels loaded, as a [`Device`]: operations are enqueued on its one stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::result::memset_d8_async;
use cudarc::driver::sys::{CUdeviceptr, CUresult};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, DriverError,
    LaunchArgs, LaunchConfig, PushKernelArg, SyncOnDrop,
};
use cudarc::nvrtc::Ptx;
use thiserror::Error;

use super::available::{Missing, device_count};
use super::communicator::Communicator;
use crate::architecture::Architecture;
use crate::call::{Argument, Buffer, Call, CallError};
use crate::device::{Device, UNWRITTEN};
use crate::element::Element;
use crate::kernel::Entry;
use crate::launch::Launch;

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

/// An open device: its context, one stream, and every entry point loaded.
#[derive(Debug)]
pub struct Cuda {
    /// Its group, while it is in one.
    pub(super) communicator: Option<Communicator>,
    stream: Arc<CudaStream>,
    functions: BTreeMap<Entry, CudaFunction>,
}

/// Memory of a device.
#[derive(Debug)]
pub struct CudaBuffer {
    element: Element,
    bytes: CudaSlice<u8>,
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
        let stream = context.new_stream().map_err(refused("make a stream"))?;
        Ok(Self { communicator: None, stream, functions: load_all(&context, architecture)? })
    }

    /// The stream that everything is enqueued on; collectives belong on it too.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    fn check(&self, entry: Entry, buffer: &CudaBuffer) -> Result<(), CudaError> {
        match buffer.is_of(&self.stream) {
            true => Ok(()),
            false => Err(CudaError::Foreign { entry }),
        }
    }

    fn check_all(&self, call: &Call<'_, CudaBuffer>) -> Result<(), CudaError> {
        call.arguments.iter().try_for_each(|argument| match argument {
            Argument::Read(buffer) => self.check(call.entry, buffer),
            Argument::Write(buffer) => self.check(call.entry, buffer),
            Argument::F32(_) | Argument::Words(_) => Ok(()),
        })
    }
}

impl Device for Cuda {
    type Buffer = CudaBuffer;
    type Error = CudaError;

    fn upload_bytes(&mut self, element: Element, bytes: &[u8]) -> Result<CudaBuffer, CudaError> {
        if !(bytes.len() as u64).is_multiple_of(element.bytes()) {
            return Err(CudaError::Bytes { bytes: bytes.len(), element });
        }
        let bytes = self.stream.clone_htod(bytes).map_err(refused("copy to the device"))?;
        Ok(CudaBuffer { element, bytes })
    }

    fn unwritten(&mut self, element: Element, length: u64) -> Result<CudaBuffer, CudaError> {
        let bytes = usize::try_from(length.saturating_mul(element.bytes()));
        let bytes = bytes.map_err(|_| DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        let filled = bytes.and_then(|bytes| unwritten(&self.stream, bytes));
        Ok(CudaBuffer { element, bytes: filled.map_err(refused("make a buffer"))? })
    }

    fn free_bytes(&self) -> Option<u64> {
        self.stream.context().mem_get_info().ok().map(|(free, _)| free as u64)
    }

    fn download_bytes(&mut self, buffer: &CudaBuffer) -> Result<Vec<u8>, CudaError> {
        self.stream.clone_dtoh(&buffer.bytes).map_err(refused("copy from the device"))
    }

    fn launch(&mut self, call: Call<'_, CudaBuffer>) -> Result<(), CudaError> {
        self.check_all(&call)?;
        let Some(function) = self.functions.get(&call.entry) else {
            return Err(CallError::Value { reason: "the device was opened without this kernel" }.into());
        };
        let mut arguments = call.arguments;
        let values: Vec<_> = arguments.iter().map(Passed::of).collect();
        let mut launch = self.stream.launch_builder(function);
        for (argument, value) in arguments.iter_mut().zip(&values) {
            push(&mut launch, argument, value);
        }
        // SAFETY: a `Call` has the arguments of its kernel's signature, and its buffers have the lengths it indexes.
        unsafe { launch.launch(call.launch.into()) }.map_err(refused("launch a kernel"))?;
        Ok(())
    }
}

impl CudaBuffer {
    pub(super) fn is_of(&self, stream: &CudaStream) -> bool {
        self.bytes.context() == stream.context()
    }

    /// Its address for what is enqueued on `stream` and writes it; to be held until that is.
    pub(super) fn address<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.bytes.device_ptr_mut(stream)
    }
}

impl Buffer for CudaBuffer {
    fn element(&self) -> Element {
        self.element
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64 / self.element.bytes()
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

fn push<'a>(launch: &mut LaunchArgs<'a>, argument: &'a mut Argument<'_, CudaBuffer>, value: &'a Passed) {
    match argument {
        Argument::Read(buffer) => launch.arg(&buffer.bytes),
        Argument::Write(buffer) => launch.arg(&mut buffer.bytes),
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
fn refused(action: &'static str) -> impl Fn(DriverError) -> CudaError {
    move |cause| CudaError::Driver { action, cause }
}
