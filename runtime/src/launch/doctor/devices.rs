//! CUDA: the driver, its devices, NCCL, and what would compute.

use std::fs;

use lockstep_kernels::Architecture;
use lockstep_kernels::cuda::Missing;
use lockstep_kernels::cuda::survey::{self, DeviceFacts};

use super::finding::{Finding, size};
use super::model::Needs;
use crate::launch::cli::{RankSource, ServeFlags};
use crate::launch::placement::Placement;

const NEEDED_FOR_DEVICES: &str = "of use for CUDA devices only; the CPU needs none of it";

pub(super) fn examine(serve: &ServeFlags, needs: Option<Needs>) -> Vec<Finding> {
    let mut findings = vec![driver()];
    let devices = survey::devices().unwrap_or_default();
    findings.extend(devices.iter().map(device));
    findings.push(collectives());
    match serve.ranks {
        RankSource::Local => findings.extend(placement(serve, &devices, needs)),
        // Their launchers say what computes, on their machines.
        RankSource::External => {}
    }
    findings
}

fn driver() -> Finding {
    match survey::driver_version() {
        Ok((major, minor)) => {
            Finding::good("CUDA driver", format!("runs CUDA {major}.{minor}{}", from("libcuda.so")))
        }
        Err(missing) => absent("CUDA driver", &missing),
    }
}

fn device(device: &DeviceFacts) -> Finding {
    let DeviceFacts { ordinal, name, capability, memory } = device;
    let (major, minor) = capability;
    let found = format!("{ordinal}: {name}, compute capability {major}.{minor}, {}", size(*memory));
    match Architecture::newest_for(*capability) {
        Some(_) => Finding::good("CUDA device", found),
        None => {
            Finding::note("CUDA device", found, "too old for the kernels: name others with --cuda-devices")
        }
    }
}

fn collectives() -> Finding {
    match survey::collectives_version() {
        Ok((major, minor, patch)) => {
            Finding::good("NCCL", format!("{major}.{minor}.{patch}{}", from("libnccl.so")))
        }
        Err(missing) => absent("NCCL", &missing),
    }
}

/// What would compute, and whether it fits.
fn placement(serve: &ServeFlags, devices: &[DeviceFacts], needs: Option<Needs>) -> Vec<Finding> {
    let tp = serve.front.group.sizes().largest();
    let placed = serve.front.group.device.place(tp);
    let mut findings = vec![Finding::judged("computes", placed.as_ref())];
    if let (Ok(Placement::Cuda { ordinals, .. }), Some(needs)) = (&placed, needs) {
        let crowded = |device: &&DeviceFacts| {
            let ranks =
                (0..tp).filter(|&rank| ordinals[rank as usize % ordinals.len()] == device.ordinal).count();
            let needed = 2 * ranks as u64 * (needs.weights + needs.pages) / u64::from(tp);
            needed > device.memory
        };
        findings.extend(devices.iter().find(crowded).map(|device| {
            let found =
                format!("model and KV pages of both groups do not fit into device {}", device.ordinal);
            Finding::note("device memory", found, "limit the pages with --kv-memory or --pages")
        }));
    }
    findings
}

/// A library that is not there, and where it was looked for.
fn absent(subject: &'static str, missing: &Missing) -> Finding {
    let listed = std::env::var("LD_LIBRARY_PATH").unwrap_or_else(|_| "unset".to_owned());
    let found =
        format!("{missing} (looked for by the loader: LD_LIBRARY_PATH is {listed}, then its own folders)");
    Finding::note(subject, found, NEEDED_FOR_DEVICES)
}

/// `, from PATH` of a library that this process has loaded.
fn from(name: &str) -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let path = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    let mut loaded = path.filter(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)));
    loaded.next().map(|path| format!(", from {path}")).unwrap_or_default()
}
