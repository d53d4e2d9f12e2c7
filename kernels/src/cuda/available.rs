//! Whether this machine has what a device run needs.
//!
//! cudarc panics when it cannot load a library, so each library is looked for here before cudarc first needs it.

use cudarc::{driver, nccl};
use thiserror::Error;

/// What a device run lacks on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// The CUDA driver library.
    #[error(
        "no CUDA driver (libcuda.so.1) on the loader's path; install the NVIDIA driver, or run on the CPU"
    )]
    DriverLibrary,
    /// A driver that starts.
    #[error("the CUDA driver does not start ({0}); see what nvidia-smi says")]
    Driver(driver::DriverError),
    /// A device.
    #[error("the CUDA driver finds no device; see what nvidia-smi says, and check CUDA_VISIBLE_DEVICES")]
    Device,
    /// The NCCL library.
    // NCCL's runtime packages install libnccl.so.2 alone, a name that cudarc does not try.
    #[error("no libnccl.so on the loader's path; install NCCL, and link libnccl.so to its libnccl.so.2")]
    CollectiveLibrary,
}

/// The number of devices, at least 1, if the driver is installed, starts and finds one.
///
/// # Errors
/// The first thing that is missing. Never panics for a missing library.
pub fn device_count() -> Result<usize, Missing> {
    // SAFETY: this loads libcuda and runs its initialisers, which a process may do at any time.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err(Missing::DriverLibrary);
    }
    driver::result::init().map_err(Missing::Driver)?;
    let count = driver::result::device::get_count().map_err(Missing::Driver)?;
    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Missing::Device)
}

/// Checks that NCCL is installed, under the name that cudarc loads it by.
///
/// # Errors
/// [`Missing::CollectiveLibrary`]. Says nothing of a device.
pub fn collectives_available() -> Result<(), Missing> {
    // SAFETY: this loads libnccl and runs its initialisers, which a process may do at any time.
    if unsafe { nccl::sys::is_culib_present() } { Ok(()) } else { Err(Missing::CollectiveLibrary) }
}
