//! Arithmetic of the forward pass in plain Rust, each output a function of one position's inputs alone.
//!
//! Batch invariance lives here: every sum runs over fixed lanes in a fixed order that no batch size changes.
//! What each rank computes for itself alike (norms, logits) uses only operations that IEEE 754 rounds one way, and no
//! fused multiply-add; `exp`, `sin` and `cos` occur only before an all-reduce. So the ranks of a group choose the same
//! tokens, bit for bit, even on unlike machines.

use std::array::from_fn;

use lockstep_kernels::wide::{LANES, Lanes, Work, on_widest_vectors};

use super::threads::Threads;
use crate::engine::backend::{Matrix, Norm};

/// Rows of a linear map that are taken together: their sums do not wait for one another, and one position is read for all.
const TILE: usize = 8;

/// Dot product, summed in [`LANES`] interleaved lanes, whose sums are added pairwise, and then the remainder.
#[inline(always)]
pub(super) fn dot<V: Lanes>(left: &[f32], right: &[f32]) -> f32 {
    let [[product]] = dots::<V, 1, 1>([left], [right]);
    product
}

/// As work of its own.
struct Dot<'a>(&'a [f32], &'a [f32]);

impl Work for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<V: Lanes>(self) -> f32 {
        dot::<V>(self.0, self.1)
    }
}

/// The dot products of several rows with several positions' values, each as [`dot`] gives it.
///
/// Loops over ranges: iterators of arrays would keep the sums in memory instead of registers.
#[inline(always)]
fn dots<V: Lanes, const ROWS: usize, const POSITIONS: usize>(
    rows: [&[f32]; ROWS],
    values: [&[f32]; POSITIONS],
) -> [[f32; POSITIONS]; ROWS] {
    let (rows, values) = (rows.map(<[f32]>::as_chunks::<LANES>), values.map(<[f32]>::as_chunks::<LANES>));
    let blocks = values.first().map_or(0, |(blocks, _)| blocks.len());
    let blocks_of_rows = rows.map(|(row, _)| &row[..blocks]);
    let blocks_of_values = values.map(|(values, _)| &values[..blocks]);
    let mut sums = [[V::zeros(); POSITIONS]; ROWS];
    for block in 0..blocks {
        let mut loaded = [V::zeros(); POSITIONS];
        for position in 0..POSITIONS {
            loaded[position] = V::of(&blocks_of_values[position][block]);
        }
        for row in 0..ROWS {
            let weights = V::of(&blocks_of_rows[row][block]);
            for position in 0..POSITIONS {
                sums[row][position] = sums[row][position].plus_product(weights, loaded[position]);
            }
        }
    }
    let mut products = [[0.0; POSITIONS]; ROWS];
    for row in 0..ROWS {
        for position in 0..POSITIONS {
            let rest: f32 = rows[row].1.iter().zip(values[position].1).map(|(a, b)| a * b).sum();
            products[row][position] = sums[row][position].sum() + rest;
        }
    }
    products
}

/// Adds `scale * source` to `target`, element by element.
#[inline(always)]
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

/// `[positions, columns]` to `[positions, rows]` of the map. `by_row` holds the outputs of several positions before they are
/// put in order.
pub(super) fn linear(
    [output, by_row]: [&mut Vec<f32>; 2],
    input: &[f32],
    map: &Matrix<Vec<f32>>,
    threads: &Threads,
) {
    match input.len() / map.columns {
        1 => linear_by_row(output, input, map, threads),
        positions => {
            linear_by_row(by_row, input, map, threads);
            transpose(by_row, positions, output);
        }
    }
}

/// `[positions, columns]` to `[rows, positions]` of the map, whose rows the threads share.
fn linear_by_row(output: &mut Vec<f32>, input: &[f32], map: &Matrix<Vec<f32>>, threads: &Threads) {
    let (columns, positions) = (map.columns, input.len() / map.columns);
    let rows = threads.part(map.rows, TILE);
    output.resize(map.rows * positions, 0.0);
    threads.fill(output, rows * positions, map.elements.len() * positions, |part, output| {
        let rows = &map.elements[part * rows * columns..];
        on_widest_vectors(Multiply { rows, input, columns, output });
    });
}

/// Fills `output`, `[rows, positions]`, from as many of `rows` and `[positions, columns]`. Each row comes from memory once
/// for the whole batch.
struct Multiply<'a> {
    rows: &'a [f32],
    input: &'a [f32],
    columns: usize,
    output: &'a mut [f32],
}

impl Work for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { rows, input, columns, output } = self;
        let positions = input.len() / columns;
        let mut tiles = output.chunks_exact_mut(TILE * positions);
        let mut rest = rows;
        for tile in &mut tiles {
            let (rows, below) = rest.split_at(TILE * columns);
            multiply_tile::<V, TILE>(rows, input, columns, tile);
            rest = below;
        }
        let last = tiles.into_remainder().chunks_exact_mut(positions);
        for (row, output) in rest.chunks_exact(columns).zip(last) {
            multiply_tile::<V, 1>(row, input, columns, output);
        }
    }
}

/// Takes positions two by two, if the registers hold the sums of so many.
#[inline(always)]
fn multiply_tile<V: Lanes, const ROWS: usize>(
    rows: &[f32],
    input: &[f32],
    columns: usize,
    output: &mut [f32],
) {
    let positions = input.len() / columns;
    let rows: [&[f32]; ROWS] = from_fn(|row| &rows[row * columns..][..columns]);
    let paired = if V::REGISTERS == 1 { positions / 2 * 2 } else { 0 };
    let (pairs, singles) = input.split_at(paired * columns);
    for (pair, values) in pairs.chunks_exact(2 * columns).enumerate() {
        let (first, second) = values.split_at(columns);
        let products = dots::<V, ROWS, 2>(rows, [first, second]);
        for (output, products) in output.chunks_exact_mut(positions).zip(products) {
            output[2 * pair..][..2].copy_from_slice(&products);
        }
    }
    for (single, values) in singles.chunks_exact(columns).enumerate() {
        let products = dots::<V, ROWS, 1>(rows, [values]);
        for (output, [product]) in output.chunks_exact_mut(positions).zip(products) {
            output[paired + single] = product;
        }
    }
}

/// `[rows, positions]` to `[positions, rows]`.
fn transpose(by_row: &[f32], positions: usize, by_position: &mut Vec<f32>) {
    let rows = by_row.len() / positions;
    by_position.resize(by_row.len(), 0.0);
    for (row, values) in by_row.chunks_exact(positions).enumerate() {
        by_position[row..].iter_mut().step_by(rows).zip(values).for_each(|(place, value)| *place = *value);
    }
}

/// Normalises `[positions, width]`, position by position.
pub(super) fn norm(output: &mut Vec<f32>, input: &[f32], norm: &Norm<Vec<f32>>) {
    output.clear();
    input.chunks_exact(norm.width).for_each(|values| output.extend(norm_one(values, norm)));
}

fn norm_one<'a>(values: &'a [f32], norm: &'a Norm<Vec<f32>>) -> impl Iterator<Item = f32> + 'a {
    #[expect(clippy::cast_precision_loss, reason = "hidden sizes are far below 2^24")]
    let mean_square = on_widest_vectors(Dot(values, values)) / values.len() as f32;
    let inverse = 1.0 / (mean_square + norm.epsilon).sqrt();
    values.iter().zip(&norm.scale).map(move |(value, scale)| value * inverse * scale)
}

/// `silu(gate) * up`, element by element.
pub(super) fn gated_silu(output: &mut Vec<f32>, gate: &[f32], up: &[f32]) {
    output.clear();
    output.extend(gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up));
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
    use super::{Dot, Matrix, Norm, Threads, gated_silu, linear, norm, on_widest_vectors, softmax};

    #[test]
    fn dot_covers_blocks_and_remainder() {
        let ones = [1.0; 35];
        let ramp: Vec<f32> = (0u8..35).map(f32::from).collect();
        assert_eq!(on_widest_vectors(Dot(&ones, &ramp)), 595.0);
    }

    fn linear_of(input: &[f32], map: &Matrix<Vec<f32>>, threads: &Threads) -> Vec<f32> {
        let mut output = Vec::new();
        linear([&mut output, &mut Vec::new()], input, map, threads);
        output
    }

    #[test]
    fn linear_rows_are_outputs() {
        let map = Matrix { elements: vec![1.0, 0.0, 2.0, 0.0, 3.0, -1.0], rows: 2, columns: 3 };
        let output = linear_of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &map, &Threads::default());
        assert_eq!(output, [7.0, 3.0, 16.0, 9.0]);
    }

    #[test]
    fn linear_is_dot_products_in_bits_for_any_threads_tiles_and_remainders() {
        let ramp = |length: usize| (0..length).map(|at| (at as f32 * 0.37).sin()).collect::<Vec<f32>>();
        for (rows, columns, positions) in [(1, 5, 1), (4, 16, 3), (7, 33, 2), (515, 130, 5), (2050, 131, 1)] {
            let (map, input) =
                (Matrix { elements: ramp(rows * columns), rows, columns }, ramp(positions * columns));
            let values = input.chunks_exact(columns);
            let expected: Vec<u32> = values
                .flat_map(|values| {
                    map.elements.chunks_exact(columns).map(|row| plain_dot(row, values).to_bits())
                })
                .collect();
            for threads in [1, 2, 3] {
                let output = linear_of(&input, &map, &Threads::new(threads).unwrap());
                let found: Vec<u32> = output.into_iter().map(f32::to_bits).collect();
                assert!(found == expected, "{rows} x {columns}, {positions} positions, {threads} threads");
            }
        }
    }

    /// The definition of a dot product's bits, one addition at a time.
    fn plain_dot(left: &[f32], right: &[f32]) -> f32 {
        let whole = left.len() / 16 * 16;
        let mut lanes = [0.0f32; 16];
        for at in 0..whole {
            lanes[at % 16] += left[at] * right[at];
        }
        let mut width = 8;
        while width > 0 {
            (0..width).for_each(|lane| lanes[lane] += lanes[lane + width]);
            width /= 2;
        }
        let rest: f32 = (whole..left.len()).map(|at| left[at] * right[at]).sum();
        lanes[0] + rest
    }

    #[test]
    fn norm_gives_unit_mean_square_times_scale() {
        let unit = Norm { scale: vec![1.0, 2.0], width: 2, epsilon: 0.0 };
        let mut output = vec![7.0];
        norm(&mut output, &[3.0, 3.0, -5.0, 5.0], &unit);
        assert_eq!(output, [1.0, 2.0, -1.0, 2.0]);
    }

    #[test]
    fn silu_is_zero_at_zero_and_identity_far_out() {
        let mut output = vec![7.0];
        gated_silu(&mut output, &[0.0, 100.0, -100.0], &[7.0, 2.0, 2.0]);
        assert_eq!(output[..2], [0.0, 200.0]);
        assert!(output[2].abs() < 1e-30 && output.len() == 3);
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
