//! The launch of each kernel: its problem's shape, and the grid and block that cover it.
//!
//! A shape is checked here once; the device and the CPU execution of the tests both launch from its [`Launch`].

use thiserror::Error;

/// Threads of a warp.
const WARP: u32 = 32;
/// Threads of the widest normalisation block; wider rows are walked in strides.
const RMSNORM_MAX_THREADS: u32 = 256;
/// Rows of threads that share the ranks of one tile; more ranks are walked in strides.
const VOTE_MIN_MAX_ROWS: u32 = 8;
/// The largest dimension: CUDA's limit of blocks in a grid; and an index that steps past it still fits 32 bits.
const MAX_SIZE: u32 = i32::MAX.cast_unsigned();

/// The extent of one kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks; the grid has one dimension.
    pub blocks: u32,
    /// Threads of a block, in x and y.
    pub threads: [u32; 2],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

/// A shape that no launch covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// A dimension of zero: nothing to compute, so the caller must not launch.
    #[error("{dimension} is 0; skip the launch, or correct the shape")]
    Empty {
        /// The dimension's name.
        dimension: &'static str,
    },
    /// A dimension that a grid, or a kernel's 32-bit index, does not reach.
    #[error("{dimension} is {size}, above the limit of {MAX_SIZE}; launch it in parts")]
    TooLarge {
        /// The dimension's name.
        dimension: &'static str,
        /// The size that was asked for.
        size: u32,
    },
}

/// The shape of a [`Kernel::RmsNorm`](crate::Kernel::RmsNorm) launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmsNorm {
    rows: u32,
    width: u32,
}

impl RmsNorm {
    /// Checks a shape of `rows` rows of `width` elements.
    ///
    /// # Errors
    /// If a dimension is 0 or beyond 2^31 - 1.
    pub fn new(rows: u32, width: u32) -> Result<Self, ShapeError> {
        check("rows", rows)?;
        check("width", width)?;
        Ok(Self { rows, width })
    }

    /// One block a row, of as many warps as the row fills.
    pub fn launch(self) -> Launch {
        let threads = self.width.min(RMSNORM_MAX_THREADS).next_multiple_of(WARP);
        Launch { blocks: self.rows, threads: [threads, 1], shared_bytes: 0 }
    }

    /// Elements of a row, and of the weight.
    pub fn width(self) -> u32 {
        self.width
    }

    /// Elements of the input, and of the output.
    pub fn elements(self) -> u64 {
        u64::from(self.rows) * u64::from(self.width)
    }
}

/// The shape of a [`Kernel::VoteMin`](crate::Kernel::VoteMin) launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteMin {
    ranks: u32,
    width: u32,
}

impl VoteMin {
    /// Checks a shape of `ranks` vote vectors of `width` elements.
    ///
    /// # Errors
    /// If a dimension is 0 or beyond 2^31 - 1.
    pub fn new(ranks: u32, width: u32) -> Result<Self, ShapeError> {
        check("ranks", ranks)?;
        check("width", width)?;
        Ok(Self { ranks, width })
    }

    /// One block for each tile of a warp's width, with a row of threads for each rank up to a limit.
    pub fn launch(self) -> Launch {
        let rows = self.ranks.min(VOTE_MIN_MAX_ROWS);
        let element_bytes = u64::BITS / u8::BITS;
        Launch {
            blocks: self.width.div_ceil(WARP),
            threads: [WARP, rows],
            shared_bytes: WARP * rows * element_bytes,
        }
    }

    /// Vote vectors that are reduced.
    pub fn ranks(self) -> u32 {
        self.ranks
    }

    /// Elements of one vote vector, and of the output.
    pub fn width(self) -> u32 {
        self.width
    }

    /// Elements of all vote vectors together.
    pub fn elements(self) -> u64 {
        u64::from(self.ranks) * u64::from(self.width)
    }
}

fn check(dimension: &'static str, size: u32) -> Result<(), ShapeError> {
    match size {
        0 => Err(ShapeError::Empty { dimension }),
        1..=MAX_SIZE => Ok(()),
        _ => Err(ShapeError::TooLarge { dimension, size }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rmsnorm_blocks_are_whole_warps_within_the_limit() {
        let threads = |width| RmsNorm::new(3, width).map(|shape| shape.launch().threads);
        assert_eq!(threads(1), Ok([32, 1]));
        assert_eq!(threads(33), Ok([64, 1]));
        assert_eq!(threads(MAX_SIZE), Ok([256, 1]));
    }

    #[test]
    fn vote_min_covers_every_element_and_holds_a_vote_for_each_thread() {
        let launch = |ranks, width| VoteMin::new(ranks, width).map(VoteMin::launch);
        assert_eq!(launch(3, 33), Ok(Launch { blocks: 2, threads: [32, 3], shared_bytes: 768 }));
        assert_eq!(launch(64, 32), Ok(Launch { blocks: 1, threads: [32, 8], shared_bytes: 2048 }));
    }

    #[test]
    fn shapes_without_a_launch_are_refused() {
        assert_eq!(RmsNorm::new(0, 1), Err(ShapeError::Empty { dimension: "rows" }));
        assert_eq!(RmsNorm::new(1, 0), Err(ShapeError::Empty { dimension: "width" }));
        assert_eq!(
            RmsNorm::new(MAX_SIZE + 1, 1),
            Err(ShapeError::TooLarge { dimension: "rows", size: MAX_SIZE + 1 })
        );
        assert_eq!(VoteMin::new(0, 1), Err(ShapeError::Empty { dimension: "ranks" }));
        assert_eq!(VoteMin::new(1, 0), Err(ShapeError::Empty { dimension: "width" }));
        assert_eq!(
            VoteMin::new(1, u32::MAX),
            Err(ShapeError::TooLarge { dimension: "width", size: u32::MAX })
        );
    }
}
