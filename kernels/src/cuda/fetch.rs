//! Values on their way to the host while the device goes on: copied behind what it was asked before, to host memory that it
//! writes by itself.

use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use cudarc::driver::result::memcpy_dtoh_async;
use cudarc::driver::{CudaContext, CudaEvent, PinnedHostSlice};

use super::device::{Cuda, CudaBuffer, CudaError, refused};
use crate::element::Plain;
use crate::group::GroupTrouble;

/// Forwards and votes on their way at once.
const FIRST: usize = 4;
const FIRST_BYTES: usize = 64 << 10;

/// Host memory for a fetch, and the place in the device's queue at which it is written.
#[derive(Debug)]
pub(super) struct Landing {
    memory: PinnedHostSlice<u8>,
    mark: CudaEvent,
}

/// Values of one buffer.
#[derive(Debug)]
pub struct Fetch<T> {
    /// `None` once they were taken.
    landing: Option<Landing>,
    bytes: usize,
    /// Collectives that were entered before.
    entered: u64,
    values: PhantomData<T>,
}

impl Cuda {
    pub(super) fn send_for<T: Plain>(&mut self, buffer: &CudaBuffer) -> Result<Fetch<T>, CudaError> {
        self.refuse_in_capture("fetch")?;
        buffer.check_values::<T>(self.stream())?;
        let bytes = buffer.bytes();
        let mut landing = self.landing(bytes)?;
        let stream = self.stream();
        let target = &mut landing.memory.as_mut_slice().map_err(refused("copy from the device"))?[..bytes];
        let (address, enqueued) = buffer.address(stream);
        // SAFETY: the buffer has as many bytes, and the target is not freed before they are written.
        let copied = unsafe { memcpy_dtoh_async(target, address, stream.cu_stream()) };
        drop(enqueued);
        let marked = copied.and_then(|()| landing.mark.record(stream));
        let entered = self.communicator.as_ref().map_or(0, |communicator| communicator.watch().entered());
        // Made whatever became of the copy: it is what keeps the target.
        let fetch = Fetch { landing: Some(landing), bytes, entered, values: PhantomData };
        marked.map_err(refused("copy from the device")).map(|()| fetch)
    }

    pub(super) fn take<T: Plain>(&mut self, fetch: &mut Fetch<T>) -> Result<Option<Vec<T>>, GroupTrouble> {
        let Some(landing) = &fetch.landing else { return Ok(None) };
        let there = match &mut self.communicator {
            Some(communicator) => communicator.reached(&landing.mark, fetch.entered)?,
            None => landing.mark.try_is_complete().map_err(refused("run what was enqueued"))?,
        };
        if !there {
            return Ok(None);
        }
        let bytes = landing.memory.as_slice().map_err(refused("copy from the device"))?;
        let values = T::all_of(&bytes[..fetch.bytes]);
        self.landings.extend(fetch.landing.take());
        Ok(Some(values))
    }

    /// One that was used before, if it has the room: to take memory that is pinned may stop every device.
    fn landing(&mut self, bytes: usize) -> Result<Landing, CudaError> {
        match self.landings.iter().position(|landing| landing.memory.len() >= bytes) {
            Some(fits) => Ok(self.landings.swap_remove(fits)),
            None => Landing::new(self.stream().context(), bytes.next_power_of_two()),
        }
    }
}

impl Landing {
    /// As many as are in use at once by forwards and votes of 16,384 rows, taken before there is anything to stop.
    pub(super) fn first(context: &Arc<CudaContext>) -> Result<Vec<Self>, CudaError> {
        (0..FIRST).map(|_| Self::new(context, FIRST_BYTES)).collect()
    }

    fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, CudaError> {
        // SAFETY: it is written before anything reads it.
        let memory = unsafe { context.alloc_pinned_with_flags(bytes, 0) };
        let mut memory = memory.map_err(refused("take pinned memory"))?;
        memory.as_mut_slice().map_err(refused("take pinned memory"))?.fill(0);
        let mark = context.new_event(None).map_err(refused("make an event"))?;
        Ok(Self { memory, mark })
    }
}

/// The device may still write to it, and to wait for that may be to wait for good.
impl<T> Drop for Fetch<T> {
    fn drop(&mut self) {
        mem::forget(self.landing.take());
    }
}
