//! What the feature `cuda` answers on a machine without CUDA: errors that say what to do, and no panic.
#![cfg(feature = "cuda")]

use lockstep_kernels::cuda::{Cuda, CudaError, Missing, collectives_available, device_count};

#[test]
fn device_without_its_driver_is_an_error_that_says_what_to_install() {
    let Err(missing) = device_count() else {
        assert!(Cuda::open(0).is_ok(), "a device is announced but does not open");
        return;
    };
    assert_eq!(Cuda::open(0).err(), Some(CudaError::Missing(missing.clone())));
    let advice = match missing {
        Missing::DriverLibrary => "install the NVIDIA driver",
        Missing::OldDriver { .. } => "install a newer NVIDIA driver",
        Missing::Driver(_) | Missing::Device => "nvidia-smi",
        Missing::CollectiveLibrary | Missing::CollectiveName(_) => panic!("NCCL is not part of a device"),
    };
    assert!(missing.to_string().contains(advice), "{missing}");
}

#[test]
fn collectives_without_nccl_are_an_error_that_says_what_to_install() {
    if let Err(missing) = collectives_available() {
        let advice = match missing {
            Missing::CollectiveLibrary => "install NCCL",
            Missing::CollectiveName(_) => "libnccl.so.2",
            Missing::DriverLibrary | Missing::Driver(_) | Missing::OldDriver { .. } | Missing::Device => {
                panic!("a device is not asked for")
            }
        };
        assert!(missing.to_string().contains(advice), "{missing}");
    }
}
