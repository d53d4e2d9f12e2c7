//! A rank's tie to the front end's life.
//!
//! The rank ties itself, after its start, instead of between fork and exec: that needs no unsafe code, and the check of the
//! parent closes the gap in which the front end may have died. The kernel ties a process to the *thread* that started it, so
//! the supervisor starts ranks from the main thread, which lives as long as the process.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use thiserror::Error;

/// Why a rank must not go on.
#[derive(Debug, Error)]
pub enum OrphanError {
    /// The front end died before the tie was made.
    #[error("the front end (pid {front}) is gone; its ranks are started by it, not by hand")]
    Gone {
        /// The front end's process id, as the command line has it.
        front: u32,
    },
    /// The kernel refused.
    #[error("this process could not be tied to the front end's life: {0}")]
    Kernel(#[from] rustix::io::Errno),
}

/// Has the kernel kill this process when its parent, the front end with process id `front`, dies.
///
/// # Errors
/// [`OrphanError`] when the front end is not the parent any more.
pub fn die_with(front: u32) -> Result<(), OrphanError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(Pid::as_raw_nonzero).and_then(|pid| u32::try_from(pid.get()).ok());
    if parent == Some(front) { Ok(()) } else { Err(OrphanError::Gone { front }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deathwatch_refuses_a_stranger_as_front_end() {
        let error = die_with(std::process::id()).unwrap_err();
        assert!(matches!(error, OrphanError::Gone { .. }), "{error}");
        set_parent_process_death_signal(None).unwrap();
    }
}
