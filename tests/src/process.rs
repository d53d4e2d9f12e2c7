//! Processes by their ids, and waiting with an end.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Sends a signal.
///
/// # Panics
/// If there is no such process.
pub fn kill(pid: u32, signal: Signal) {
    kill_process(raw(pid), signal).unwrap();
}

/// Whether the process is there and not just a zombie.
#[must_use]
pub fn lives(pid: u32) -> bool {
    let stat =
        std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    test_kill_process(raw(pid)).is_ok() && !stat.contains(") Z ")
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not within [`PATIENCE`].
pub fn wait_for(what: &str, condition: impl Fn() -> bool) {
    wait_within(PATIENCE, what, condition);
}

/// Waits until `condition` holds, for `patience` at most.
///
/// # Panics
/// If it does not hold in time.
pub fn wait_within(patience: Duration, what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < patience, "in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn raw(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}
