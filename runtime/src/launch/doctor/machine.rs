//! The machine itself: cores and memory.

use std::fs;

use rustix::fs::statvfs;

use super::finding::{Finding, size};
use super::model::Needs;
use crate::launch::cli::GroupFlags;
use crate::wire::Sizes;

/// What NCCL takes of it for two ranks that share a machine, roughly.
const SHARED_MEMORY: u64 = 64 << 20;

pub(super) fn examine(flags: &GroupFlags, needs: Option<Needs>) -> Vec<Finding> {
    let mut findings = vec![cores(flags.sizes())];
    findings.extend(available_memory().map(|available| memory(available, needs)));
    findings.extend(shared_memory());
    findings
}

fn cores(sizes: Sizes) -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let found = format!("{cores}, for {} ranks of two groups", sizes.total());
    match cores >= sizes.total() as usize {
        true => Finding::good("cores", found),
        false => {
            Finding::note("cores", found, "ranks take turns on them; a smaller --tp or more cores are faster")
        }
    }
}

fn memory(available: u64, needs: Option<Needs>) -> Finding {
    let Some(needs) = needs else {
        return Finding::good("memory", size(available));
    };
    // Both groups hold the model and pages of their own.
    let needed = 2 * (needs.weights + needs.pages);
    let found =
        format!("{} are free; model and KV pages of both groups take {}", size(available), size(needed));
    match available > needed {
        true => Finding::good("memory", found),
        false => {
            Finding::note("memory", found, "lower --pages, or let devices with memory of their own compute")
        }
    }
}

fn shared_memory() -> Option<Finding> {
    let state = statvfs("/dev/shm").ok()?;
    let free = state.f_bavail.saturating_mul(state.f_frsize);
    let found = format!("{} are free in /dev/shm", size(free));
    Some(match free >= SHARED_MEMORY {
        true => Finding::good("shared memory", found),
        false => Finding::note(
            "shared memory",
            found,
            "NCCL needs more between ranks of one machine: --shm-size of a container",
        ),
    })
}

/// What the system could give, and the container's limit.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    Some(limit.min(kibibytes << 10))
}
