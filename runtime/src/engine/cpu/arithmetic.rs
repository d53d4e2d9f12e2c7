//! Arithmetic of the forward pass in plain Rust, each output a function of one position's inputs alone.
//!
//! Batch invariance lives here: every sum runs over fixed lanes in a fixed order that no batch size changes.
//! What each rank computes for itself alike (norms, logits) uses only operations that IEEE 754 rounds one way, and no
//! fused multiply-add; `exp`, `sin` and `cos` occur only before an all-reduce. So the ranks of a group choose the same
//! tokens, bit for bit, even on unlike machines.

use std::array::from_fn;

use crate::engine::backend::{Matrix, Norm};

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

/// `[positions, columns]` to `[positions, rows]` of the map. Each of its rows is read once for the whole batch.
pub(super) fn linear(input: &[f32], map: &Matrix<Vec<f32>>) -> Vec<f32> {
    let mut output = vec![0.0; input.len() / map.columns * map.rows];
    for (index, row) in map.elements.chunks_exact(map.columns).enumerate() {
        for (position, values) in input.chunks_exact(map.columns).enumerate() {
            output[position * map.rows + index] = dot(row, values);
        }
    }
    output
}

/// Normalises `[positions, width]`, position by position.
pub(super) fn norm(input: &[f32], norm: &Norm<Vec<f32>>) -> Vec<f32> {
    input.chunks_exact(norm.width).flat_map(|values| norm_one(values, norm)).collect()
}

fn norm_one<'a>(values: &'a [f32], norm: &'a Norm<Vec<f32>>) -> impl Iterator<Item = f32> + 'a {
    #[expect(clippy::cast_precision_loss, reason = "hidden sizes are far below 2^24")]
    let mean_square = dot(values, values) / values.len() as f32;
    let inverse = 1.0 / (mean_square + norm.epsilon).sqrt();
    values.iter().zip(&norm.scale).map(move |(value, scale)| value * inverse * scale)
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
    use super::{Matrix, Norm, dot, gated_silu, linear, norm, softmax};

    #[test]
    fn dot_covers_blocks_and_remainder() {
        let ones = [1.0; 35];
        let ramp: Vec<f32> = (0u8..35).map(f32::from).collect();
        assert_eq!(dot(&ones, &ramp), 595.0);
    }

    #[test]
    fn linear_rows_are_outputs() {
        let map = Matrix { elements: vec![1.0, 0.0, 2.0, 0.0, 3.0, -1.0], rows: 2, columns: 3 };
        assert_eq!(linear(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &map), [7.0, 3.0, 16.0, 9.0]);
    }

    #[test]
    fn norm_gives_unit_mean_square_times_scale() {
        let unit = Norm { scale: vec![1.0, 2.0], width: 2, epsilon: 0.0 };
        assert_eq!(norm(&[3.0, 3.0, -5.0, 5.0], &unit), [1.0, 2.0, -1.0, 2.0]);
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
