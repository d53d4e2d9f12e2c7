//! The extent of a launch: blocks, threads and shared memory, within what every supported device has.

use thiserror::Error;

/// Threads of a warp.
pub(crate) const WARP: u32 = 32;

/// CUDA's limits of blocks in x and in y.
const MAX_BLOCKS: [u64; 2] = [i32::MAX as u64, 65_535];
/// CUDA's limit of threads in a block.
const MAX_THREADS: u32 = 1024;
/// Dynamic shared memory that every device gives a block without being asked for more, in bytes.
pub(crate) const MAX_SHARED_BYTES: u64 = 48 << 10;

/// The extent of one kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks, in x and y.
    pub blocks: [u32; 2],
    /// Threads of a block, in x and y.
    pub threads: [u32; 2],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

/// A shape that no launch covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LaunchError {
    /// Nothing to compute.
    #[error("nothing to compute; skip the call")]
    Empty,
    /// More blocks than a grid has.
    #[error("{blocks:?} blocks are needed, {MAX_BLOCKS:?} are the most; make the call in parts")]
    Blocks {
        /// Blocks, in x and y.
        blocks: [u64; 2],
    },
    /// More threads than a block has.
    #[error("a block of {threads:?} threads is needed, {MAX_THREADS} are the most")]
    Threads {
        /// Threads, in x and y.
        threads: [u32; 2],
    },
    /// More shared memory than a block has.
    #[error(
        "a block needs {bytes} bytes of shared memory, {MAX_SHARED_BYTES} are the most; use smaller heads"
    )]
    Shared {
        /// Bytes.
        bytes: u64,
    },
}

impl Launch {
    /// Checks an extent.
    ///
    /// # Errors
    /// If it is empty or beyond a limit of the devices.
    pub fn new(blocks: [u64; 2], threads: [u32; 2], shared_bytes: u64) -> Result<Self, LaunchError> {
        if blocks.contains(&0) || threads.contains(&0) {
            return Err(LaunchError::Empty);
        }
        if blocks.iter().zip(MAX_BLOCKS).any(|(&blocks, most)| blocks > most) {
            return Err(LaunchError::Blocks { blocks });
        }
        if threads[0].saturating_mul(threads[1]) > MAX_THREADS {
            return Err(LaunchError::Threads { threads });
        }
        match (u32::try_from(blocks[0]), u32::try_from(blocks[1]), u32::try_from(shared_bytes)) {
            (Ok(x), Ok(y), Ok(bytes)) if shared_bytes <= MAX_SHARED_BYTES => {
                Ok(Self { blocks: [x, y], threads, shared_bytes: bytes })
            }
            (_, _, _) => Err(LaunchError::Shared { bytes: shared_bytes }),
        }
    }
}

/// As many threads as `work` has items, in whole warps, `limit` at most.
pub(crate) fn whole_warps(work: u32, limit: u32) -> u32 {
    work.min(limit).next_multiple_of(WARP)
}

#[cfg(test)]
mod tests {
    use super::{Launch, LaunchError, whole_warps};

    #[test]
    fn launch_within_the_limits_is_what_was_asked_for() {
        let launch = Launch::new([7, 2], [32, 8], 768);
        assert_eq!(launch, Ok(Launch { blocks: [7, 2], threads: [32, 8], shared_bytes: 768 }));
        assert!(Launch::new([i32::MAX as u64, 65_535], [1024, 1], 48 << 10).is_ok());
    }

    #[test]
    fn launch_beyond_a_limit_names_it() {
        assert_eq!(Launch::new([0, 1], [32, 1], 0), Err(LaunchError::Empty));
        assert_eq!(Launch::new([1, 65_536], [32, 1], 0), Err(LaunchError::Blocks { blocks: [1, 65_536] }));
        assert_eq!(Launch::new([1, 1], [32, 33], 0), Err(LaunchError::Threads { threads: [32, 33] }));
        assert_eq!(Launch::new([1, 1], [32, 1], 49_153), Err(LaunchError::Shared { bytes: 49_153 }));
        assert_eq!(Launch::new([1, 1], [32, 1], 1 << 40), Err(LaunchError::Shared { bytes: 1 << 40 }));
    }

    #[test]
    fn threads_are_whole_warps_within_the_limit() {
        assert_eq!([1, 33, 1000].map(|work| whole_warps(work, 256)), [32, 64, 256]);
    }
}
