//! Operations that treat the rows of a batch one by one.

use super::Operation;
use crate::call::{Buffer, Call, CallError, product};
use crate::kernel::Kernel;
use crate::launch::{Launch, whole_warps};

/// Threads of the widest block of a row; wider rows are walked in strides.
const ROW_THREADS: u32 = 256;
/// Threads of a block of elements.
const ELEMENT_THREADS: u32 = 256;

/// `output[row] = table[indices[row]]`, widened to `f32`; a row of NaN for an index beyond the table.
#[derive(Debug)]
pub struct GatherRows<'a, B> {
    /// `[rows, width]`.
    pub output: &'a mut B,
    /// `[entries, width]`.
    pub table: &'a B,
    /// `[rows]`.
    pub indices: &'a B,
    /// Rows of the table.
    pub entries: u32,
    /// Elements of a row.
    pub width: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for GatherRows<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        let rows = self.indices.len();
        Call::of(Kernel::GatherRows, Some(self.table))?
            .write(self.output, rows.saturating_mul(self.width.into()))
            .read(self.table, product(&[self.entries, self.width]))
            .read(self.indices, rows)
            .sizes([self.entries])
            .sizes([self.width])
            .launch(a_block_a_row(rows, self.width))
    }
}

/// `output = input * weight / sqrt(mean(input²) + epsilon)`, row by row.
#[derive(Debug)]
pub struct RmsNorm<'a, B> {
    /// `[rows, width]`.
    pub output: &'a mut B,
    /// `[rows, width]`.
    pub input: &'a B,
    /// `[width]`.
    pub weight: &'a B,
    /// Number of rows.
    pub rows: u32,
    /// Elements of a row.
    pub width: u32,
    /// Added to the mean square.
    pub epsilon: f32,
}

impl<'a, B: Buffer> Operation<'a, B> for RmsNorm<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        let elements = product(&[self.rows, self.width]);
        Call::of(Kernel::RmsNorm, Some(self.weight))?
            .write(self.output, elements)
            .read(self.input, elements)
            .read(self.weight, self.width.into())
            .sizes([self.width])
            .float(self.epsilon)
            .launch(a_block_a_row(self.rows.into(), self.width))
    }
}

/// `hidden += summand`, and `output` the normalised sum as by [`RmsNorm`].
#[derive(Debug)]
pub struct AddRmsNorm<'a, B> {
    /// `[rows, width]`.
    pub output: &'a mut B,
    /// `[rows, width]`: the residual stream.
    pub hidden: &'a mut B,
    /// `[rows, width]`: what a layer adds, summed over the ranks.
    pub summand: &'a B,
    /// `[width]`.
    pub weight: &'a B,
    /// Number of rows.
    pub rows: u32,
    /// Elements of a row.
    pub width: u32,
    /// Added to the mean square.
    pub epsilon: f32,
}

impl<'a, B: Buffer> Operation<'a, B> for AddRmsNorm<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        let elements = product(&[self.rows, self.width]);
        Call::of(Kernel::AddRmsNorm, Some(self.weight))?
            .write(self.output, elements)
            .write(self.hidden, elements)
            .read(self.summand, elements)
            .read(self.weight, self.width.into())
            .sizes([self.width])
            .float(self.epsilon)
            .launch(a_block_a_row(self.rows.into(), self.width))
    }
}

/// `output = silu(gate) * up`, element by element.
#[derive(Debug)]
pub struct SiluMul<'a, B> {
    /// `[count]`.
    pub output: &'a mut B,
    /// `[count]`.
    pub gate: &'a B,
    /// `[count]`.
    pub up: &'a B,
    /// Number of elements.
    pub count: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for SiluMul<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        let blocks = u64::from(self.count.div_ceil(ELEMENT_THREADS));
        Call::of(Kernel::SiluMul, None::<&B>)?
            .write(self.output, self.count.into())
            .read(self.gate, self.count.into())
            .read(self.up, self.count.into())
            .sizes([self.count])
            .launch(Launch::new([blocks, 1], [ELEMENT_THREADS, 1], 0))
    }
}

/// One block a row, of as many warps as the row fills.
pub(super) fn a_block_a_row(rows: u64, width: u32) -> Result<Launch, crate::launch::LaunchError> {
    Launch::new([rows, 1], [whole_warps(width, ROW_THREADS), 1], 0)
}
