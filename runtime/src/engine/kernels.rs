//! Arithmetic of the forward pass in plain Rust, each output a function of one position's inputs alone.
//!
//! Batch invariance lives here: every sum runs over fixed lanes in a fixed order that no batch size changes.
//! What each rank computes for itself alike (norms, logits) uses only operations that IEEE 754 rounds one way, and no
//! fused multiply-add; `exp`, `sin` and `cos` occur only before an all-reduce. So the ranks of a group choose the same
//! tokens, bit for bit, even on unlike machines.

use std::array::from_fn;

/// Width of the independent partial sums of a dot product: 4 SSE or 2 AVX registers.
const LANES: usize = 16;

/// Dot product, summed in [`LANES`] interleaved lanes, whose sums are added pairwise, and then the remainder.
pub(super) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left_blocks, left_rest) = left.as_chunks::<LANES>();
    let (right_blocks, right_rest) = right.as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for (a, b) in left_blocks.iter().zip(right_blocks) {
        for ((sum, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(a, b)| a * b).sum();
    pairwise_sum(lanes) + rest
}

/// Adds the upper half of the lanes to the lower until one is left.
fn pairwise_sum(lanes: [f32; LANES]) -> f32 {
    let eight: [f32; 8] = from_fn(|lane| lanes[lane] + lanes[lane + 8]);
    let four: [f32; 4] = from_fn(|lane| eight[lane] + eight[lane + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Adds `scale * source` to `target`, element by element.
pub(super) fn add_scaled(target: &mut [f32], scale: f32, source: &[f32]) {
    for (sum, value) in target.iter_mut().zip(source) {
        *sum += scale * value;
    }
}

/// Adds `source` to `target`, element by element.
pub(super) fn add(target: &mut [f32], source: &[f32]) {
    for (sum, value) in target.iter_mut().zip(source) {
        *sum += value;
    }
}

/// A linear map without bias: a weight of shape `[outputs, inputs]`, row-major.
#[derive(Debug)]
pub(super) struct Linear {
    weight: Vec<f32>,
    outputs: usize,
    inputs: usize,
}

impl Linear {
    /// A map over `weight`, whose length is a multiple of `inputs` (at least 1).
    pub(super) fn new(weight: Vec<f32>, inputs: usize) -> Self {
        let outputs = weight.len() / inputs;
        debug_assert_eq!(weight.len(), outputs * inputs, "weight is not whole rows");
        Self { weight, outputs, inputs }
    }

    /// Weight row `index`: what an embedding looks up.
    pub(super) fn row(&self, index: usize) -> &[f32] {
        &self.weight[index * self.inputs..][..self.inputs]
    }

    /// `[positions, inputs]` to `[positions, outputs]`. Each weight row is read once for the whole batch.
    pub(super) fn apply(&self, input: &[f32]) -> Vec<f32> {
        let positions = input.len() / self.inputs;
        let mut output = vec![0.0; positions * self.outputs];
        for (index, row) in self.weight.chunks_exact(self.inputs).enumerate() {
            for (position, values) in input.chunks_exact(self.inputs).enumerate() {
                output[position * self.outputs + index] = dot(row, values);
            }
        }
        output
    }
}

/// Root-mean-square normalisation with a learnt scale.
#[derive(Debug)]
pub(super) struct RmsNorm {
    /// Scale of each element; its length is the hidden size.
    pub(super) scale: Vec<f32>,
    /// Added to the mean square.
    pub(super) epsilon: f32,
}

impl RmsNorm {
    /// Normalises `[positions, hidden]`, position by position.
    pub(super) fn apply(&self, input: &[f32]) -> Vec<f32> {
        input.chunks_exact(self.scale.len()).flat_map(|values| self.one(values)).collect()
    }

    fn one<'a>(&'a self, values: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        #[expect(clippy::cast_precision_loss, reason = "hidden sizes are far below 2^24")]
        let mean_square = dot(values, values) / values.len() as f32;
        let inverse = 1.0 / (mean_square + self.epsilon).sqrt();
        values.iter().zip(&self.scale).map(move |(value, scale)| value * inverse * scale)
    }
}

/// Replaces `gate` by `silu(gate) * up`, element by element.
pub(super) fn gated_silu(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + (-*gate).exp()) * up;
    }
}

/// Replaces `scores` by its softmax; a NaN among them makes all of them NaN.
pub(super) fn softmax(scores: &mut [f32]) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - highest).exp();
        total += *score;
    }
    for score in scores.iter_mut() {
        *score /= total;
    }
}

#[cfg(test)]
mod tests {
    use super::{Linear, RmsNorm, dot, gated_silu, softmax};

    #[test]
    fn dot_covers_blocks_and_remainder() {
        let ones = [1.0; 35];
        let ramp: Vec<f32> = (0u8..35).map(f32::from).collect();
        assert_eq!(dot(&ones, &ramp), 595.0);
    }

    #[test]
    fn linear_rows_are_outputs() {
        let map = Linear::new(vec![1.0, 0.0, 2.0, 0.0, 3.0, -1.0], 3);
        assert_eq!(map.apply(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), [7.0, 3.0, 16.0, 9.0]);
        assert_eq!(map.row(1), [0.0, 3.0, -1.0]);
    }

    #[test]
    fn rms_norm_gives_unit_mean_square_times_scale() {
        let norm = RmsNorm { scale: vec![1.0, 2.0], epsilon: 0.0 };
        assert_eq!(norm.apply(&[3.0, 3.0, -5.0, 5.0]), [1.0, 2.0, -1.0, 2.0]);
    }

    #[test]
    fn silu_is_zero_at_zero_and_identity_far_out() {
        let mut gate = [0.0, 100.0, -100.0];
        gated_silu(&mut gate, &[7.0, 2.0, 2.0]);
        assert_eq!(gate[..2], [0.0, 200.0]);
        assert!(gate[2].abs() < 1e-30);
    }

    #[test]
    fn softmax_sums_to_one_and_spreads_nan() {
        let mut scores = [1000.0, 1000.0, -1000.0];
        softmax(&mut scores);
        assert_eq!(scores, [0.5, 0.5, 0.0]);
        let mut poisoned = [1.0, f32::NAN, 2.0];
        softmax(&mut poisoned);
        assert!(poisoned.iter().all(|score| score.is_nan()));
    }
}
