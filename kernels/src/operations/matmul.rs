//! Linear maps, for shapes that are too small for a library to matter.
//!
//! Batch-invariant: both kernels give the same bits for a row, whatever rows it is in company with.

use super::Operation;
use crate::call::{Buffer, Call, CallError, product};
use crate::kernel::Kernel;
use crate::launch::{Launch, WARP};

// As in matmul.cu.
const WARPS: u32 = 4;
const COLUMNS: u32 = 4;
const GEMM_ROWS: u32 = 8;

/// `output[row, column] = Σ_k input[row, k] * weight[column, k]`.
#[derive(Debug)]
pub struct Matmul<'a, B> {
    /// `[rows, outputs]`.
    pub output: &'a mut B,
    /// `[rows, inputs]`.
    pub input: &'a B,
    /// `[outputs, inputs]`, row-major as in checkpoints.
    pub weight: &'a B,
    /// Rows of the batch.
    pub rows: u32,
    /// Elements of an output row.
    pub outputs: u32,
    /// Elements of an input row.
    pub inputs: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for Matmul<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        let (kernel, row_tiles) = match self.rows {
            0 | 1 => (Kernel::Gemv, self.rows),
            2.. => (Kernel::Gemm, self.rows.div_ceil(GEMM_ROWS)),
        };
        let column_tiles = self.outputs.div_ceil(WARPS * COLUMNS);
        Call::of(kernel, Some(self.weight))?
            .write(self.output, product(&[self.rows, self.outputs]))
            .read(self.input, product(&[self.rows, self.inputs]))
            .read(self.weight, product(&[self.outputs, self.inputs]))
            .sizes([self.rows, self.outputs, self.inputs])
            .launch(Launch::new([column_tiles.into(), row_tiles.into()], [WARPS * WARP, 1], 0))
    }
}
