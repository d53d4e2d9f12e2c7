//! A computation of every kernel, the same on every [`Device`]: what two devices are compared by, and each kernel with
//! what plain arithmetic gives.
//!
//! Several kernels follow one another, as in a forward; the others have inputs of their own, so that an error is that of
//! one kernel. All can be captured in a graph: what a kernel changes in place is written anew in every run.
//!
//! Reading order: the kernels that follow one another are here, [`alone`] lists the others and compares them; they are in
//! [`rows`], [`paged`] and [`choice`], with inputs of [`numbers`].

mod alone;
mod choice;
mod numbers;
mod paged;
mod rows;

use std::collections::BTreeMap;

use lockstep_kernels::element::bytes_of;
use lockstep_kernels::operations::choice::{Argmax, ChosenTokens};
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::rows::{GatherRows, RmsNorm, SiluMul};
use lockstep_kernels::{Buffer, Device, Element, Plain};
use serde::{Deserialize, Serialize};

use alone::{Alone, largest_error};
use numbers::{bfloats, floats};

pub use alone::Finding;

const ROWS: u32 = 3;
const WIDTH: u32 = 96;
const OUTPUTS: u32 = 40;
const EPSILON: f32 = 1e-5;
/// Rows of the table.
pub const ENTRIES: u32 = 50;
/// Indices that tests begin with, and others.
pub const INDICES: [[u32; 3]; 2] = [[7, 49, 0], [3, 3, 48]];

/// What the computation gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// `[ROWS, OUTPUTS]`, the bits of each `f32`.
    pub logits: Vec<u32>,
    /// `[ROWS]`.
    pub tokens: Vec<u32>,
    /// What the kernels with inputs of their own have written, in words of 32 bits.
    pub written: BTreeMap<String, Vec<u32>>,
}

/// The computation's buffers on a device.
#[derive(Debug)]
pub struct Sample<B> {
    table: B,
    weight: B,
    ones: B,
    /// `[ROWS]`, below [`ENTRIES`]: what the computation is about.
    pub indices: B,
    rows: B,
    normed: B,
    mapped: B,
    bids: B,
    /// What it computes.
    pub outputs: Outputs<B>,
}

/// What the computation writes last, and the kernels with inputs of their own.
#[derive(Debug)]
pub struct Outputs<B> {
    logits: B,
    tokens: B,
    alone: Alone<B>,
}

impl<B: Buffer> Sample<B> {
    /// Uploads the inputs.
    ///
    /// # Errors
    /// The device's.
    pub fn upload<D: Device<Buffer = B>>(device: &mut D, indices: [u32; 3]) -> Result<Self, D::Error> {
        let zeros = |device: &mut D, count: u32| device.upload(&vec![0.0f32; count as usize]);
        Ok(Self {
            table: device.upload_bytes(Element::Bf16, &bf16(ENTRIES * WIDTH))?,
            weight: device.upload_bytes(Element::Bf16, &bf16(OUTPUTS * WIDTH))?,
            ones: device.upload(&[1.0f32; WIDTH as usize])?,
            indices: device.upload(&indices)?,
            rows: zeros(device, ROWS * WIDTH)?,
            normed: zeros(device, ROWS * WIDTH)?,
            mapped: zeros(device, ROWS * OUTPUTS)?,
            bids: device.upload(&[0u64; ROWS as usize])?,
            outputs: Outputs {
                logits: zeros(device, ROWS * OUTPUTS)?,
                tokens: device.upload(&[0u32; ROWS as usize])?,
                alone: Alone::upload(device)?,
            },
        })
    }

    /// Embeddings, a norm, a linear map, a gate and a choice, one after another; then the kernels alone.
    ///
    /// # Errors
    /// The device's.
    pub fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { table, weight, ones, indices, rows, normed, mapped, bids, outputs } = self;
        let Outputs { logits, tokens, alone } = outputs;
        device.run(GatherRows { output: rows, table, indices, entries: ENTRIES, width: WIDTH })?;
        let (input, width) = (&*rows, WIDTH);
        device.run(RmsNorm { output: normed, input, weight: ones, rows: ROWS, width, epsilon: EPSILON })?;
        let (input, outputs) = (&*normed, OUTPUTS);
        device.run(Matmul { output: mapped, input, weight, rows: ROWS, outputs, inputs: WIDTH })?;
        device.run(SiluMul { output: logits, gate: mapped, up: mapped, count: ROWS * OUTPUTS })?;
        device.run(Argmax { bids, logits, rows: ROWS, width: OUTPUTS, first_token: 0 })?;
        device.run(ChosenTokens { tokens, bids, rows: ROWS })?;
        alone.run(device)
    }
}

impl<B: Buffer> Outputs<B> {
    /// Downloads them.
    ///
    /// # Errors
    /// The device's.
    pub fn outcome<D: Device<Buffer = B>>(&self, device: &mut D) -> Result<Outcome, D::Error> {
        let logits = device.download::<f32>(&self.logits)?.into_iter().map(f32::to_bits).collect();
        let mut written = BTreeMap::new();
        for (name, buffer) in self.alone.written() {
            written.insert(name, u32::all_of(&device.download_bytes(buffer)?));
        }
        Ok(Outcome { logits, tokens: device.download(&self.tokens)?, written })
    }
}

/// The outcome for rows of the table.
///
/// # Errors
/// The device's.
pub fn compute<D: Device>(device: &mut D, indices: [u32; 3]) -> Result<Outcome, D::Error> {
    let mut sample = Sample::upload(device, indices)?;
    sample.run(device)?;
    sample.outputs.outcome(device)
}

/// The outcome as plain arithmetic gives it, in `f64`: logits, tokens.
#[must_use]
pub fn reference(indices: [u32; 3]) -> (Vec<f64>, Vec<u32>) {
    let (table, weight) = (bfloats(&bf16(ENTRIES * WIDTH)), bfloats(&bf16(OUTPUTS * WIDTH)));
    let logits_of = |index: u32| -> Vec<f64> {
        let row = &table[(index * WIDTH) as usize..][..WIDTH as usize];
        let mean_square = row.iter().map(|x| x * x).sum::<f64>() / f64::from(WIDTH);
        let scale = 1.0 / (mean_square + f64::from(EPSILON)).sqrt();
        let columns = weight.chunks(WIDTH as usize);
        let mapped = columns.map(|column| column.iter().zip(row).map(|(w, x)| w * x * scale).sum::<f64>());
        mapped.map(|x| x / (1.0 + (-x).exp()) * x).collect()
    };
    let rows = indices.map(logits_of);
    let tokens = rows
        .iter()
        .map(|row| (0u32..).zip(row).max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(token, _)| token));
    (rows.concat(), tokens.collect())
}

impl Outcome {
    /// The largest difference from the reference, beside the reference's size.
    #[must_use]
    pub fn largest_error(&self, (logits, _): &(Vec<f64>, Vec<u32>)) -> f64 {
        largest_error(&floats(&bytes_of(&self.logits)), logits)
    }

    /// What each kernel with inputs of its own is off by.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let words = |name: &str| self.written.get(name).map_or_else(Vec::new, |words| bytes_of(words));
        alone::expected().into_iter().map(|expected| expected.beside(&words(&expected.name))).collect()
    }
}

/// As many numbers between -2 and 2 as bfloat16, the same every time.
fn bf16(count: u32) -> Vec<u8> {
    let number =
        |index: u32| (index.wrapping_mul(2_654_435_761) >> 8) as f32 / f32::from(1u16 << 11) / 2048.0 - 2.0;
    (0..count).flat_map(|index| (number(index).to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect()
}
