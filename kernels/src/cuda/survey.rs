//! What there is of CUDA on this machine, for whoever asks before anything is started. Opens no device.

use std::ffi::c_int;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{DriverError, result};
use cudarc::nccl;

use super::available::{self, Missing, collectives_available, device_count};

/// A device, as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its number, as CUDA counts.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability: major, minor.
    pub capability: (i32, i32),
    /// Its memory, in bytes.
    pub memory: u64,
}

/// The newest CUDA version that the driver runs: major, minor.
///
/// # Errors
/// If the driver or a device is missing, or the driver is too old.
pub fn driver_version() -> Result<(i32, i32), Missing> {
    device_count()?;
    available::driver_version()
}

/// Every device.
///
/// # Errors
/// If the driver or a device is missing, or it does not answer.
pub fn devices() -> Result<Vec<DeviceFacts>, Missing> {
    let count = device_count()?;
    (0..count).map(|ordinal| facts(ordinal).map_err(Missing::Driver)).collect()
}

/// NCCL's version: major, minor, patch.
///
/// # Errors
/// If it is missing.
pub fn collectives_version() -> Result<(i32, i32, i32), Missing> {
    collectives_available()?;
    let version = nccl::result::get_nccl_version().map_err(|_| Missing::CollectiveLibrary)?;
    Ok((version / 10_000, version / 100 % 100, version % 100))
}

fn facts(ordinal: usize) -> Result<DeviceFacts, DriverError> {
    const MAJOR: CUdevice_attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    const MINOR: CUdevice_attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
    let device = result::device::get(c_int::try_from(ordinal).unwrap_or(c_int::MAX))?;
    // SAFETY: the driver has just given this device.
    let (memory, major, minor) = unsafe {
        (
            result::device::total_mem(device)?,
            result::device::get_attribute(device, MAJOR)?,
            result::device::get_attribute(device, MINOR)?,
        )
    };
    let name = result::device::get_name(device)?;
    Ok(DeviceFacts { ordinal, name, capability: (major, minor), memory: memory as u64 })
}
