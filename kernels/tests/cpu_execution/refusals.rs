//! What does not fit is refused before any device sees it, with an error that names it.

use lockstep_kernels::cpu::{CpuBuffer, CpuError};
use lockstep_kernels::operations::choice::{Sample, VoteMin};
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::paged::{CacheShape, GatherPages};
use lockstep_kernels::operations::rows::{GatherRows, RmsNorm, SiluMul};
use lockstep_kernels::{CallError, Device, Element, Operation};

use crate::common::{cpu, upload};

fn refusal<'a>(operation: impl Operation<'a, CpuBuffer>) -> String {
    operation.call().expect_err("it does not fit").to_string()
}

#[test]
fn refusal_names_the_buffer_of_another_length() {
    let mut cpu = cpu();
    let (mut output, six, four) =
        (upload(&mut cpu, &[0.0_f32; 6]), upload(&mut cpu, &[0.0_f32; 6]), upload(&mut cpu, &[0.0_f32; 4]));
    let norm = RmsNorm { output: &mut output, input: &six, weight: &four, rows: 2, width: 3, epsilon: 0.0 };
    assert_eq!(refusal(norm), "the weight of rmsnorm_f32 has 4 elements; its shape needs exactly 3");
    let map = Matmul { output: &mut output, input: &four, weight: &six, rows: 2, outputs: 3, inputs: 2 };
    assert!(map.call().is_ok());
    let map =
        Matmul { output: &mut output, input: &four, weight: &six, rows: u32::MAX, outputs: 3, inputs: 2 };
    assert!(refusal(map).contains("the output of gemm_f32 has 6 elements"));
}

#[test]
fn refusal_names_the_buffer_of_another_type() {
    let mut cpu = cpu();
    let (mut output, numbers) = (upload(&mut cpu, &[0.0_f32; 2]), upload(&mut cpu, &[0_u32; 2]));
    let values = upload(&mut cpu, &[0.0_f32; 2]);
    let gate = SiluMul { output: &mut output, gate: &values, up: &numbers, count: 2 };
    assert_eq!(refusal(gate), "the up of silu_mul has elements of type u32; they must be f32");
    let gather = GatherRows { output: &mut output, table: &numbers, indices: &numbers, entries: 2, width: 1 };
    assert_eq!(refusal(gather), "gather_rows has no entry point for u32; convert the buffer");
}

#[test]
fn refusal_of_sizes_without_a_launch() {
    let mut cpu = cpu();
    let (mut output, nothing) = (upload::<u64>(&mut cpu, &[]), upload::<u64>(&mut cpu, &[]));
    let vote = VoteMin { output: &mut output, votes: &nothing, ranks: 3, width: 0 };
    assert!(refusal(vote).contains("the width of vote_min has a size of 0"));
    let shape = CacheShape { pages: 2, layers: 1, page_size: 4, kv_heads: 1, head_dim: 3 };
    let pages = GatherPages { staging: &mut output, cache: &nothing, listed: &nothing, shape };
    assert!(refusal(pages).contains("head_dim must be even"));
    let shape = CacheShape { head_dim: 4, ..shape };
    let cache = cpu.upload_bytes(Element::F32, &[0; 2 * 2 * 4 * 4 * 4]).expect("whole elements");
    let numbers = upload::<u32>(&mut cpu, &[]);
    let pages = GatherPages { staging: &mut output, cache: &cache, listed: &numbers, shape };
    assert_eq!(refusal(pages), "gather_pages: nothing to compute; skip the call");
}

#[test]
fn refusal_of_fewer_temperatures_than_seeds() {
    let mut cpu = cpu();
    let (mut bids, logits) = (upload(&mut cpu, &[0_u64; 2]), upload(&mut cpu, &[0.0_f32; 2]));
    let (seeds, temperatures) = (upload(&mut cpu, &[0_u64; 2]), upload(&mut cpu, &[1.0_f32]));
    let (bids, logits, seeds, temperatures) = (&mut bids, &logits, &seeds, &temperatures);
    let refused = refusal(Sample { bids, logits, seeds, temperatures, width: 1, first_token: 0 });
    assert!(refused.contains("temperatures"), "{refused}");
}

#[test]
fn refusal_of_bytes_and_values_of_another_type() {
    let mut cpu = cpu();
    assert!(matches!(cpu.upload_bytes(Element::F32, &[0; 7]), Err(CpuError::Bytes { bytes: 7, .. })));
    let buffer = upload(&mut cpu, &[1_u32]);
    assert!(matches!(cpu.download::<f32>(&buffer), Err(CpuError::Call(CallError::Value { .. }))));
}
