//! What running the sources on the CPU must catch: every barrier taken away, threads that skip one, accesses beyond a
//! buffer; and broken rules of the dialect, in probes of one warp.

use lockstep_kernels::call::Argument;
use lockstep_kernels::cpu::{Compiler, Cpu, CpuBuffer, CpuError, Program, Sanitizers, Source};
use lockstep_kernels::operations::choice::{Argmax, VoteMin};
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::rows::RmsNorm;
use lockstep_kernels::{Device, Element, Kernel, Launch};

use crate::attention::{MODELS, Row};
use crate::common::{ORDERS, compiler, junk, upload};

const BARRIER: &str = "__syncthreads();";

/// A kernel's source; that of the norm with the header in place, because its barrier is there.
fn source(kernel: Kernel) -> Source {
    let mut source = Source::of(kernel).expect("a committed source");
    if kernel == Kernel::RmsNorm {
        let header = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/cuda/reduce.cuh"));
        let header = header.expect("a committed header").replace("#pragma once", "");
        source.text = source.text.replace("#include \"reduce.cuh\"", &header);
    }
    source
}

fn compile(source: Source) -> Program {
    compiler(Sanitizers::Off).compile(&[source]).unwrap_or_else(|error| panic!("{error}"))
}

/// The source of a kernel with its barrier of this number replaced; `None` if it has fewer.
fn mutant(kernel: Kernel, number: usize, replacement: &str) -> Option<Source> {
    let mut source = source(kernel);
    let (start, _) = source.text.match_indices(BARRIER).nth(number)?;
    source.text.replace_range(start..start + BARRIER.len(), replacement);
    Some(source)
}

/// One launch of a kernel in a shape in which every barrier matters.
type Case = fn(&mut Cpu) -> Result<(), CpuError>;

const CASES: [(Kernel, Case); 5] = [
    (Kernel::RmsNorm, |cpu| {
        let (mut output, input) = (junk(cpu, 400), upload(cpu, &[1.0_f32; 400]));
        let weight = upload(cpu, &[1.0_f32; 200]);
        cpu.run(RmsNorm {
            output: &mut output,
            input: &input,
            weight: &weight,
            rows: 2,
            width: 200,
            epsilon: 1.0,
        })
    }),
    (Kernel::Gemm, |cpu| {
        let (mut output, input) = (junk(cpu, 34), upload(cpu, &[1.0_f32; 600]));
        let weight = upload(cpu, &[1.0_f32; 17 * 300]);
        cpu.run(Matmul {
            output: &mut output,
            input: &input,
            weight: &weight,
            rows: 2,
            outputs: 17,
            inputs: 300,
        })
    }),
    (Kernel::Attention, |cpu| {
        let model = MODELS[1];
        let row = Row { start: 38, end: 40, ..model.row(0, 0, 40) };
        let cache = model.cache(Element::F32, std::slice::from_ref(&row));
        model.attend(cpu, (Element::F32, &cache), &[row], 2).map(|_| ())
    }),
    (Kernel::Argmax, |cpu| {
        let (mut bids, logits) = (upload(cpu, &[0_u64]), upload(cpu, &[1.0_f32; 100]));
        cpu.run(Argmax { bids: &mut bids, logits: &logits, rows: 1, width: 100, first_token: 0 })
    }),
    (Kernel::VoteMin, |cpu| {
        let (mut output, votes) = (upload(cpu, &[0_u64; 33]), upload(cpu, &[1_u64; 7 * 33]));
        cpu.run(VoteMin { output: &mut output, votes: &votes, ranks: 7, width: 33 })
    }),
];

/// Reports of a changed kernel in every thread order.
fn reports(source: Source, case: Case) -> Vec<String> {
    let name = source.name.clone();
    let mut cpu = compile(source).start().expect("the program starts");
    let run = |order| {
        cpu.order_threads(order);
        let result = case(&mut cpu);
        result.expect_err(&format!("{name}, order {order}: the bug is not caught")).to_string()
    };
    ORDERS.map(run).collect()
}

fn is_race(report: &str) -> bool {
    report.contains("races with") || report.contains("no thread of the block has written")
}

#[test]
fn bug_dropped_barrier_is_reported_in_every_thread_order() {
    let mut dropped = 0;
    for (kernel, case) in CASES {
        for number in 0.. {
            let Some(mut source) = mutant(kernel, number, "") else { break };
            source.name += &format!(" without barrier {number}");
            dropped += 1;
            for report in reports(source, case) {
                assert!(is_race(&report), "{kernel}: {report}");
            }
        }
    }
    assert_eq!(dropped, 8, "barriers in the sources: a new one needs a case here that misses it");
}

#[test]
fn bug_divergent_barrier_is_reported_in_every_thread_order() {
    for (kernel, case) in CASES {
        let source = mutant(kernel, 0, "if (threadIdx.x < 16) __syncthreads();").expect("a barrier");
        for report in reports(source, case) {
            assert!(is_race(&report) || report.contains("divergence: of "), "{report}");
        }
    }
}

#[test]
fn bug_early_return_before_a_barrier_is_reported() {
    let mut source = source(Kernel::VoteMin);
    let before = "    minima[own] = element < width";
    source.text = source.text.replace(before, &format!("    if (element >= width) return;\n{before}"));
    let [.., (_, case)] = CASES;
    for report in reports(source, case) {
        let evidence = "of 224 threads, 7 wait at a barrier, 0 in a warp operation, 217 have returned";
        assert!(report.contains(evidence), "{report}");
    }
}

/// A kernel of one warp that breaks a rule in each mode but 0.
const PROBE: &str = r#"
#include "dialect.cuh"

extern "C" __global__ void probe(unsigned* output, unsigned mode) {
    SHARED(unsigned, shared, 32);
    const unsigned lane = threadIdx.x;
    if (mode == 0) output[lane] = __shfl_down_sync(EVERY_LANE, lane, 2);
    if (mode == 1 && lane == 0) __syncthreads();
    if (mode == 1 && lane != 0) __syncthreads();
    if (mode == 2 && lane < 16) output[lane] = __shfl_xor_sync(EVERY_LANE, lane, 1);
    if (mode == 3 && lane < 16) output[lane] = __shfl_xor_sync(0x0000ffffu, lane, 16);
    if (mode == 4) output[lane] = __shfl_xor_sync(0x0000ffffu, lane, 1);
    if (mode == 5) output[lane] = shared[lane];
    if (mode == 6) shared[lane + 1] = lane;
    if (mode == 7) output[lane + 1] = lane;
    if (mode == 8) output[lane] = 1 << (lane + 1);
    if (mode == 9) shared[lane / 2] = lane;
    if (mode == 10 && lane < 5) __syncthreads();
}
"#;

fn run_probe(compiler: &Compiler, mode: u32) -> Result<Vec<u32>, CpuError> {
    let source = Source { name: "probe.cu".into(), text: PROBE.into(), entries: vec!["probe".into()] };
    let mut cpu = compiler.compile(&[source])?.start()?;
    let launch = Launch { blocks: [1, 1], threads: [32, 1], shared_bytes: 0 };
    let mut output: CpuBuffer = upload(&mut cpu, &[0_u32; 32]);
    cpu.launch_unchecked("probe", launch, vec![Argument::Write(&mut output), Argument::Words(vec![mode])])?;
    cpu.download(&output)
}

fn assert_reported(sanitizers: Sanitizers, mode: u32, evidence: &str) {
    let report = run_probe(&compiler(sanitizers), mode).expect_err("nothing was reported").to_string();
    assert!(report.contains(evidence), "{report}");
}

#[test]
fn shuffle_down_keeps_the_value_of_lanes_without_a_source() {
    let lanes: Vec<u32> = (0..32).map(|lane| if lane < 30 { lane + 2 } else { lane }).collect();
    assert_eq!(run_probe(&compiler(Sanitizers::Off), 0).expect("no fault"), lanes);
}

#[test]
fn bug_broken_warp_operation_or_barrier_is_reported() {
    assert_reported(Sanitizers::Off, 1, "divergence: threads wait at different barriers");
    let skipped = "of 32 threads, 5 wait at a barrier, 0 in a warp operation, 27 have returned";
    assert_reported(Sanitizers::Off, 10, skipped);
    assert_reported(Sanitizers::Off, 2, "16 in a warp operation, 16 have returned");
    assert_reported(Sanitizers::Off, 3, "a lane reads from a lane outside the mask");
    assert_reported(Sanitizers::Off, 4, "a lane is not in the mask that it passes");
}

#[test]
fn bug_misused_shared_memory_is_reported() {
    assert_reported(
        Sanitizers::Off,
        5,
        "thread 0 reads shared memory that no thread of the block has written",
    );
    assert_reported(Sanitizers::Off, 6, "thread 31 accesses element 32 of a shared array of 32");
    assert_reported(
        Sanitizers::Off,
        9,
        "thread 1 races with thread 0 for an element of shared memory, after the start",
    );
}

#[test]
fn bug_access_beyond_a_buffer_or_undefined_arithmetic_is_reported() {
    assert_reported(Sanitizers::On, 7, "heap-buffer-overflow");
    assert_reported(Sanitizers::On, 8, "shift exponent 32");
}

#[test]
fn compiler_that_is_missing_is_named_with_what_to_install() {
    let missing = Compiler { command: "no-such-compiler".into(), ..compiler(Sanitizers::Off) };
    let message = run_probe(&missing, 0).expect_err("no such compiler").to_string();
    assert!(message.contains("no-such-compiler") && message.contains("install g++"), "{message}");
}
