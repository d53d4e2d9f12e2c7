//! A computation of several kernels, the same on every [`Device`]: what two devices are compared by.

use lockstep_kernels::operations::choice::{Argmax, ChosenTokens};
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::rows::{GatherRows, RmsNorm, SiluMul};
use lockstep_kernels::{Device, Element};
use serde::{Deserialize, Serialize};

const ROWS: u32 = 3;
const WIDTH: u32 = 96;
const ENTRIES: u32 = 50;
const OUTPUTS: u32 = 40;
const INDICES: [u32; 3] = [7, 49, 0];

/// What the computation gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// `[ROWS, OUTPUTS]`, the bits of each `f32`.
    pub logits: Vec<u32>,
    /// `[ROWS]`.
    pub tokens: Vec<u32>,
}

/// Embeddings, a norm, a linear map, a gate and a choice, one after another.
///
/// # Errors
/// The device's.
pub fn compute<D: Device>(device: &mut D) -> Result<Outcome, D::Error> {
    let table = device.upload_bytes(Element::Bf16, &bf16(ENTRIES * WIDTH))?;
    let weight = device.upload_bytes(Element::Bf16, &bf16(OUTPUTS * WIDTH))?;
    let ones = device.upload(&vec![1.0f32; WIDTH as usize])?;
    let indices = device.upload(&INDICES)?;
    let mut rows = device.upload(&vec![0.0f32; (ROWS * WIDTH) as usize])?;
    let mut normed = device.upload(&vec![0.0f32; (ROWS * WIDTH) as usize])?;
    let mut mapped = device.upload(&vec![0.0f32; (ROWS * OUTPUTS) as usize])?;
    let mut logits = device.upload(&vec![0.0f32; (ROWS * OUTPUTS) as usize])?;
    let mut bids = device.upload(&[0u64; ROWS as usize])?;
    let mut tokens = device.upload(&[0u32; ROWS as usize])?;

    device.run(GatherRows {
        output: &mut rows,
        table: &table,
        indices: &indices,
        entries: ENTRIES,
        width: WIDTH,
    })?;
    let output = &mut normed;
    device.run(RmsNorm { output, input: &rows, weight: &ones, rows: ROWS, width: WIDTH, epsilon: 1e-5 })?;
    let (input, weight) = (&normed, &weight);
    device.run(Matmul { output: &mut mapped, input, weight, rows: ROWS, outputs: OUTPUTS, inputs: WIDTH })?;
    device.run(SiluMul { output: &mut logits, gate: &mapped, up: &mapped, count: ROWS * OUTPUTS })?;
    device.run(Argmax { bids: &mut bids, logits: &logits, rows: ROWS, width: OUTPUTS, first_token: 0 })?;
    device.run(ChosenTokens { tokens: &mut tokens, bids: &bids, rows: ROWS })?;
    let logits = device.download::<f32>(&logits)?.into_iter().map(f32::to_bits).collect();
    Ok(Outcome { logits, tokens: device.download(&tokens)? })
}

/// As many numbers between -2 and 2 as bfloat16, the same every time.
fn bf16(count: u32) -> Vec<u8> {
    let number =
        |index: u32| (index.wrapping_mul(2_654_435_761) >> 8) as f32 / f32::from(1u16 << 11) / 2048.0 - 2.0;
    (0..count).flat_map(|index| (number(index).to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect()
}
