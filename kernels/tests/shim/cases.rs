//! Inputs, launches and plain references of each kernel.

use lockstep_kernels::{RmsNorm, VoteMin};

use super::process::{Argument, Session};

/// Elements behind each buffer that no kernel may write, and whose use shows in the result.
const GUARD: usize = 64;
const EPSILON: f32 = 1e-5;

/// The splitmix64 sequence.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in -1..1.
    fn float(&mut self) -> f32 {
        let word = u16::try_from(self.word() >> 48).expect("16 bits");
        f32::from(word) / 32_768.0 - 1.0
    }
}

pub(crate) fn votes(shape: VoteMin, seed: u64) -> Vec<u64> {
    let mut random = Random(seed);
    (0..shape.elements()).map(|_| random.word()).collect()
}

/// Rows to normalise, and the weight of their columns.
pub(crate) struct Rows {
    pub(crate) input: Vec<f32>,
    pub(crate) weight: Vec<f32>,
}

impl Rows {
    /// Random rows of a shape.
    pub(crate) fn random(shape: RmsNorm, seed: u64) -> Self {
        let mut random = Random(seed);
        let input = (0..shape.elements()).map(|_| random.float()).collect();
        Self { input, weight: (0..shape.width()).map(|_| random.float()).collect() }
    }
}

/// A buffer of votes, with a guard of zeroes: one of them in a minimum would show.
fn vote_buffer(values: &[u64]) -> Argument {
    let guard = [0; GUARD];
    Argument::Buffer(values.iter().chain(&guard).flat_map(|value| value.to_ne_bytes()).collect())
}

/// A buffer of floats, with a guard of NaN: one of them in a sum would show.
fn float_buffer(values: &[f32]) -> Argument {
    let guard = [f32::NAN; GUARD];
    Argument::Buffer(values.iter().chain(&guard).flat_map(|value| value.to_ne_bytes()).collect())
}

pub(crate) fn word(value: u32) -> Argument {
    Argument::Scalar(value.to_ne_bytes())
}

/// The elements of a buffer after a launch, whose guard must be untouched.
fn unguarded<const BYTES: usize>(buffer: &[u8], guard: [u8; BYTES]) -> Vec<[u8; BYTES]> {
    let (elements, _) = buffer.as_chunks::<BYTES>();
    let (values, behind) = elements.split_at(elements.len() - GUARD);
    assert!(behind.iter().all(|element| *element == guard), "the kernel wrote beyond a buffer");
    values.to_vec()
}

pub(crate) fn run_vote_min(
    session: &mut Session,
    shape: VoteMin,
    order: u32,
    votes: &[u64],
) -> Result<Vec<u64>, String> {
    let output = vote_buffer(&vec![0; shape.width() as usize]);
    let arguments = [output, vote_buffer(votes), word(shape.ranks()), word(shape.width())];
    let buffers = session.launch(shape.launch(), order, &arguments)?;
    Ok(unguarded(&buffers[0], 0_u64.to_ne_bytes()).into_iter().map(u64::from_ne_bytes).collect())
}

pub(crate) fn run_rmsnorm(
    session: &mut Session,
    shape: RmsNorm,
    order: u32,
    rows: &Rows,
) -> Result<Vec<f32>, String> {
    let output = float_buffer(&vec![0.0; rows.input.len()]);
    let (input, weight) = (float_buffer(&rows.input), float_buffer(&rows.weight));
    let epsilon = Argument::Scalar(EPSILON.to_ne_bytes());
    let buffers =
        session.launch(shape.launch(), order, &[output, input, weight, word(shape.width()), epsilon])?;
    Ok(unguarded(&buffers[0], f32::NAN.to_ne_bytes()).into_iter().map(f32::from_ne_bytes).collect())
}

pub(crate) fn expected_minimum(shape: VoteMin, votes: &[u64]) -> Vec<u64> {
    let width = shape.width() as usize;
    (0..width)
        .map(|element| votes.iter().skip(element).step_by(width).copied().min().expect("a rank"))
        .collect()
}

/// The root-mean-square normalisation of rows, summed in double precision.
pub(crate) fn expected_norm(rows: &Rows) -> Vec<f64> {
    rows.input.chunks(rows.weight.len()).flat_map(|row| expected_row(row, &rows.weight)).collect()
}

fn expected_row(row: &[f32], weight: &[f32]) -> Vec<f64> {
    let squares: f64 = row.iter().map(|&value| f64::from(value).powi(2)).sum();
    let scale = 1.0 / (squares / weight.len() as f64 + f64::from(EPSILON)).sqrt();
    row.iter().zip(weight).map(|(&value, &weight)| f64::from(value) * scale * f64::from(weight)).collect()
}
