//! Calls that no safe function makes, through cudarc's raw ones.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use lockstep_kernels::{Architecture, Kernel};

/// Words of each rank's row.
const WIDTH: u32 = 40;
const VOTES: usize = 2 * WIDTH as usize;

/// Does `what`, and gives what the device let pass.
pub(crate) fn run(what: &str) -> Result<String, Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let kernel = Vote::load(&context)?;
    match what {
        "fresh" => fresh(&stream).map_err(Into::into),
        "freed" => kernel.reads_freed_memory(&stream).map_err(Into::into),
        "beyond" => kernel.launch(&stream, VOTES, WIDTH as usize, 100_000).map_err(Into::into),
        "fringe" => kernel.launch(&stream, VOTES, WIDTH as usize - 1, 2).map_err(Into::into),
        "right" => kernel.launch(&stream, VOTES, WIDTH as usize, 2).map_err(Into::into),
        "entry" => Ok(format!("{:?}", kernel.module().load_function("vote_max"))),
        "order" => order(&context).map_err(Into::into),
        _ => Err("no such misuse".into()),
    }
}

/// The kernel of the vote, unchecked.
struct Vote(CudaFunction, Arc<cudarc::driver::CudaModule>);

impl Vote {
    fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let module = context.load_module(Ptx::from_src(Kernel::VoteMin.ptx(Architecture::Sm90)))?;
        Ok(Self(module.load_function("vote_min")?, module))
    }

    fn module(&self) -> &Arc<cudarc::driver::CudaModule> {
        &self.1
    }

    /// The minimum of `ranks` rows, whatever the buffers hold.
    fn launch(
        &self,
        stream: &Arc<CudaStream>,
        votes: usize,
        width: usize,
        ranks: u32,
    ) -> Result<String, DriverError> {
        let votes = stream.clone_htod(&vec![7u64; votes])?;
        let mut output = stream.clone_htod(&vec![0u64; width])?;
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(&mut output).arg(&votes).arg(&ranks).arg(&WIDTH);
        // SAFETY: none, which is what this is about; only the stand-in is asked to run it.
        unsafe { launch.launch(extent()) }?;
        stream.synchronize()?;
        Ok(format!("{:?}", stream.clone_dtoh(&output)?))
    }

    fn reads_freed_memory(&self, stream: &Arc<CudaStream>) -> Result<String, DriverError> {
        let votes = stream.clone_htod(&[7u64; VOTES])?;
        let mut output = stream.clone_htod(&[0u64; WIDTH as usize])?;
        let address = votes.leak();
        // SAFETY: the address is of this stream's memory.
        unsafe { result::free_async(address, stream.cu_stream()) }?;
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(&mut output).arg(&address).arg(&2u32).arg(&WIDTH);
        // SAFETY: none, which is what this is about; only the stand-in is asked to run it.
        unsafe { launch.launch(extent()) }?;
        stream.synchronize()?;
        Ok("read freed memory".to_owned())
    }
}

fn extent() -> LaunchConfig {
    LaunchConfig { grid_dim: (2, 1, 1), block_dim: (32, 2, 1), shared_mem_bytes: 512 }
}

fn fresh(stream: &Arc<CudaStream>) -> Result<String, DriverError> {
    // SAFETY: what is in it is what is asked for.
    let memory = unsafe { stream.alloc::<u8>(3) }?;
    Ok(format!("{:x?}", stream.clone_dtoh(&memory)?))
}

/// One stream waits for an event of another that is busy: what it copies then must be what the other left.
fn order(context: &Arc<CudaContext>) -> Result<String, DriverError> {
    unsafe extern "C" fn sleep(_: *mut std::ffi::c_void) {
        thread::sleep(Duration::from_millis(100));
    }
    let (busy, waiting) = (context.new_stream()?, context.new_stream()?);
    // SAFETY: the streams are ordered by the event below, which is what this is about.
    unsafe { context.disable_event_tracking() };
    let mut memory = busy.clone_htod(&[1u32])?;
    busy.synchronize()?;
    // SAFETY: the function touches nothing.
    unsafe { result::stream::launch_host_function(busy.cu_stream(), sleep, std::ptr::null_mut()) }?;
    busy.memcpy_htod(&[2u32], &mut memory)?;
    let early = waiting.clone_dtoh(&memory)?;
    let event = busy.record_event(None)?;
    let pending = event.is_complete();
    waiting.wait(&event)?;
    let late = waiting.clone_dtoh(&memory)?;
    Ok(format!("{early:?} {pending} {late:?} {}", event.is_complete()))
}
