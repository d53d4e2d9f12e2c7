//! Whether this machine has what a device run needs.
//!
//! cudarc panics when it cannot load a library, so each library is looked for here before cudarc first needs it.

use std::ffi::c_int;
use std::path::{Path, PathBuf};

use cudarc::{driver, nccl};
use thiserror::Error;

/// The name that NCCL's runtime packages install, and that cudarc does not try.
const VERSIONED: &str = "libnccl.so.2";
/// Where the loader or NVIDIA's installers put libraries, beside LD_LIBRARY_PATH.
const FOLDERS: [&str; 6] = [
    "/usr/local/cuda/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// The CUDA version of the kernels' PTX: major, minor. A driver runs what is as old as itself.
const NEEDED: (i32, i32) = (13, 0);

/// What a device run lacks on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// The CUDA driver library.
    #[error(
        "no CUDA driver (libcuda.so.1) on the loader's path; install the NVIDIA driver, or run on the CPU"
    )]
    DriverLibrary,
    /// A driver that starts.
    #[error("the CUDA driver does not start ({0}); see what nvidia-smi says")]
    Driver(driver::DriverError),
    /// A driver that is new enough.
    #[error(
        "the CUDA driver runs CUDA {}.{}, and the kernels need {}.{}; install a newer NVIDIA driver, or run on the CPU",
        found.0, found.1, NEEDED.0, NEEDED.1
    )]
    OldDriver {
        /// What it runs: major, minor.
        found: (i32, i32),
    },
    /// A device.
    #[error("the CUDA driver finds no device; see what nvidia-smi says, and check CUDA_VISIBLE_DEVICES")]
    Device,
    /// The NCCL library.
    #[error(
        "neither libnccl.so nor libnccl.so.2 is on the loader's path; install NCCL, or add its folder to LD_LIBRARY_PATH"
    )]
    CollectiveLibrary,
    /// The name by which the NCCL library is loaded.
    #[error(
        "NCCL is there as {}, but not under the name libnccl.so that is looked for; in a folder of LD_LIBRARY_PATH, make a \
         link of that name to it (ln -s)", .0.display()
    )]
    CollectiveName(PathBuf),
}

/// The number of devices, at least 1, if the driver is installed, starts, is new enough and finds one.
///
/// # Errors
/// The first thing that is missing. Never panics for a missing library.
pub fn device_count() -> Result<usize, Missing> {
    // SAFETY: this loads libcuda and runs its initialisers, which a process may do at any time.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err(Missing::DriverLibrary);
    }
    driver::result::init().map_err(Missing::Driver)?;
    let found = driver_version()?;
    if found < NEEDED {
        return Err(Missing::OldDriver { found });
    }
    let count = driver::result::device::get_count().map_err(Missing::Driver)?;
    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Missing::Device)
}

/// The newest CUDA version that the driver runs: major, minor. The driver has started.
pub(super) fn driver_version() -> Result<(i32, i32), Missing> {
    let mut version: c_int = 0;
    // SAFETY: the library is present, and writes into `version` alone.
    unsafe { driver::sys::cuDriverGetVersion(&raw mut version) }.result().map_err(Missing::Driver)?;
    Ok((version / 1000, version % 1000 / 10))
}

/// Checks that NCCL is installed, under the name that cudarc loads it by.
///
/// # Errors
/// [`Missing::CollectiveLibrary`], or [`Missing::CollectiveName`] if it is there under another name. Says nothing of a device.
pub fn collectives_available() -> Result<(), Missing> {
    // SAFETY: this loads libnccl and runs its initialisers, which a process may do at any time.
    if unsafe { nccl::sys::is_culib_present() } {
        return Ok(());
    }
    Err(under_another_name().map_or(Missing::CollectiveLibrary, Missing::CollectiveName))
}

fn under_another_name() -> Option<PathBuf> {
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::env::split_paths(&listed).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| Path::join(&folder, VERSIONED)).find(|path| path.is_file())
}
