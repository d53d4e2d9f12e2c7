//! The kernels' own sources, run on the CPU and compared with a plain reference; and the bugs that this must catch.
//!
//! Needs g++ (or a C++17 compiler named in `CXX`). Floating-point results may differ from a GPU's in their last bits.

mod shim;

use std::ops::Range;

use lockstep_kernels::{Kernel, Launch, RmsNorm, VoteMin};
use shim::cases::{Rows, expected_minimum, expected_norm, run_rmsnorm, run_vote_min, votes, word};
use shim::process::{Argument, Program, Session, source};

/// Thread orders of every case: ascending, and shuffles.
const ORDERS: Range<u32> = 0..4;
/// Thread orders that a bug is looked for in.
const SEARCH: Range<u32> = 0..8;
/// The relative error that the order of a sum in single precision explains at the widths below.
const TOLERANCE: f64 = 2e-6;

/// A shape wide enough that every barrier of the kernel matters: several tiles, the last one ragged.
const RAGGED_VOTES: (u32, u32) = (7, 33);
/// Likewise: several warps a row.
const WIDE_ROWS: (u32, u32) = (2, 200);

fn compile(kernel: Kernel) -> Program {
    Program::compile(kernel.entry(), &source(kernel))
}

/// A kernel with one place of its source changed.
fn mutant(kernel: Kernel, from: &str, to: &str) -> Program {
    let original = source(kernel);
    assert_eq!(original.matches(from).count(), 1, "{kernel} no longer has one {from:?}: adapt this test");
    Program::compile(kernel.entry(), &original.replace(from, to))
}

fn vote_shape((ranks, width): (u32, u32)) -> VoteMin {
    VoteMin::new(ranks, width).expect("a shape with a launch")
}

fn row_shape((rows, width): (u32, u32)) -> RmsNorm {
    RmsNorm::new(rows, width).expect("a shape with a launch")
}

/// Whether one launch gives the minimum; an error is the shim's report.
fn minimum_is_right(session: &mut Session, shape: VoteMin, order: u32) -> Result<bool, String> {
    let votes = votes(shape, order.into());
    Ok(run_vote_min(session, shape, order, &votes)? == expected_minimum(shape, &votes))
}

/// Whether one launch gives the normalised rows; an error is the shim's report.
fn norm_is_right(session: &mut Session, shape: RmsNorm, order: u32) -> Result<bool, String> {
    let rows = Rows::random(shape, order.into());
    let found = run_rmsnorm(session, shape, order, &rows)?;
    let pairs = found.iter().zip(expected_norm(&rows));
    Ok(pairs.fold(true, |right, (&found, expected)| right && is_close(found, expected)))
}

fn is_close(found: f32, expected: f64) -> bool {
    (f64::from(found) - expected).abs() <= TOLERANCE * expected.abs()
}

fn assert_diverges<T: std::fmt::Debug>(result: Result<T, String>, evidence: &str) {
    let report = result.expect_err("the threads part, yet nothing was reported");
    assert!(report.starts_with("divergence in block ") && report.contains(evidence), "{report}");
}

#[test]
fn vote_min_is_the_minimum_over_ranks_in_any_thread_order() {
    let program = compile(Kernel::VoteMin);
    let mut session = program.start();
    for ranks in [1, 2, 3, 4, 5, 7, 8, 9, 16, 33] {
        for width in [1, 31, 32, 33, 64, 100, 257] {
            for order in ORDERS {
                let right = minimum_is_right(&mut session, vote_shape((ranks, width)), order);
                assert_eq!(right, Ok(true), "{ranks} ranks, width {width}, order {order}");
            }
        }
    }
}

#[test]
fn vote_min_of_neutral_votes_is_neutral() {
    let program = compile(Kernel::VoteMin);
    let shape = vote_shape(RAGGED_VOTES);
    let neutral = vec![u64::MAX; usize::try_from(shape.elements()).expect("a small shape")];
    let minimum = run_vote_min(&mut program.start(), shape, 1, &neutral);
    assert_eq!(minimum, Ok(vec![u64::MAX; shape.width() as usize]));
}

#[test]
fn rmsnorm_normalises_rows_in_any_thread_order() {
    let program = compile(Kernel::RmsNorm);
    let mut session = program.start();
    for rows in [1, 2, 5] {
        for width in [1, 31, 32, 33, 64, 100, 255, 256, 257, 576, 1000] {
            for order in ORDERS {
                let right = norm_is_right(&mut session, row_shape((rows, width)), order);
                assert_eq!(right, Ok(true), "{rows} rows, width {width}, order {order}");
            }
        }
    }
}

#[test]
fn rmsnorm_gives_the_same_bits_in_any_thread_order() {
    let program = compile(Kernel::RmsNorm);
    let mut session = program.start();
    let shape = row_shape(WIDE_ROWS);
    let rows = Rows::random(shape, 1);
    let mut bits = |order| {
        let output = run_rmsnorm(&mut session, shape, order, &rows).expect("no divergence");
        output.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let ascending = bits(0);
    for order in SEARCH {
        assert_eq!(bits(order), ascending, "order {order}");
    }
}

#[test]
fn rmsnorm_of_a_zero_row_is_zero() {
    let program = compile(Kernel::RmsNorm);
    let shape = row_shape(WIDE_ROWS);
    let rows = Rows { input: vec![0.0; 400], weight: vec![1.0; 200] };
    assert_eq!(run_rmsnorm(&mut program.start(), shape, 1, &rows), Ok(vec![0.0; 400]));
}

#[test]
fn table_agrees_with_the_signatures_of_the_sources() {
    for kernel in Kernel::ALL {
        let table: Vec<_> = kernel.parameters().iter().map(ToString::to_string).collect();
        assert_eq!(compile(kernel).signature(), table, "{kernel}");
    }
}

#[test]
fn dropped_barrier_of_vote_min_gives_a_wrong_minimum() {
    let program = mutant(Kernel::VoteMin, "__syncthreads();", "");
    let mut session = program.start();
    let wrong =
        SEARCH.filter(|&order| minimum_is_right(&mut session, vote_shape(RAGGED_VOTES), order) == Ok(false));
    assert!(wrong.count() > 0, "no thread order shows that the barrier is gone");
}

#[test]
fn dropped_barrier_of_rmsnorm_gives_wrong_rows() {
    let program = mutant(Kernel::RmsNorm, "__syncthreads();", "");
    let mut session = program.start();
    let wrong = SEARCH.filter(|&order| norm_is_right(&mut session, row_shape(WIDE_ROWS), order) == Ok(false));
    assert!(wrong.count() > 0, "no thread order shows that the barrier is gone");
}

#[test]
fn divergent_barrier_is_reported_with_the_threads_that_skip_it() {
    let program = mutant(Kernel::RmsNorm, "__syncthreads();", "if (threadIdx.x < 96) __syncthreads();");
    let shape = row_shape(WIDE_ROWS);
    let result = run_rmsnorm(&mut program.start(), shape, 1, &Rows::random(shape, 1));
    assert_diverges(result, "of 224 threads, 96 wait at a barrier, 0 in a warp operation, 128 have returned");
}

#[test]
fn early_return_before_a_barrier_is_reported() {
    let program = mutant(
        Kernel::VoteMin,
        "    minima[own] = element < width",
        "    if (element >= width) return;\n    minima[own] = element < width",
    );
    let shape = vote_shape(RAGGED_VOTES);
    let result = run_vote_min(&mut program.start(), shape, 1, &votes(shape, 1));
    assert_diverges(result, "of 224 threads, 7 wait at a barrier, 0 in a warp operation, 217 have returned");
}

/// A kernel of one warp that breaks a rule of the dialect in each mode but 0.
const PROBE: &str = r#"
#include "dialect.cuh"

extern "C" __global__ void probe(unsigned* output, unsigned mode) {
    const unsigned lane = threadIdx.x;
    if (mode == 0) output[lane] = __shfl_down_sync(EVERY_LANE, lane, 2);
    if (mode == 1 && lane == 0) __syncthreads();
    if (mode == 1 && lane != 0) __syncthreads();
    if (mode == 2 && lane < 16) output[lane] = __shfl_xor_sync(EVERY_LANE, lane, 1);
    if (mode == 3 && lane < 16) output[lane] = __shfl_xor_sync(0x0000ffffu, lane, 16);
    if (mode == 4) output[lane] = __shfl_xor_sync(0x0000ffffu, lane, 1);
}
"#;

fn run_probe(mode: u32) -> Result<Vec<u8>, String> {
    let program = Program::compile("probe", PROBE);
    let launch = Launch { blocks: 1, threads: [32, 1], shared_bytes: 0 };
    let output = Argument::Buffer(vec![0; 32 * 4]);
    let buffers = program.start().launch(launch, 1, &[output, word(mode)])?;
    Ok(buffers.concat())
}

#[test]
fn shuffle_down_keeps_the_value_of_lanes_without_a_source() {
    let lanes = (0..32_u32).map(|lane| if lane < 30 { lane + 2 } else { lane });
    assert_eq!(run_probe(0), Ok(lanes.flat_map(u32::to_ne_bytes).collect()));
}

#[test]
fn different_barriers_of_one_block_are_reported() {
    assert_diverges(run_probe(1), "threads wait at different barriers");
}

#[test]
fn broken_warp_operations_are_reported() {
    assert_diverges(run_probe(2), "16 in a warp operation, 16 have returned");
    assert_diverges(run_probe(3), "a lane reads from a lane outside the mask");
    assert_diverges(run_probe(4), "a lane is not in the mask that it passes");
}

#[test]
fn compiler_that_is_missing_is_named_with_what_to_install() {
    let result = Program::compile_with("no-such-compiler", "probe", PROBE);
    let message = result.err().expect("no such compiler");
    assert!(message.contains("no-such-compiler") && message.contains("install g++"), "{message}");
}
