//! What running the sources on the CPU must catch: every barrier taken away, threads that skip one, accesses beyond a
//! buffer; and broken rules of the dialect, in probes of one warp.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lockstep_kernels::call::Argument;
use lockstep_kernels::cpu::{Compiler, Cpu, CpuBuffer, CpuError, Program, Sanitizers, Source};
use lockstep_kernels::operations::choice::{Argmax, Sample, VoteMin};
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::rows::{AddRmsNorm, RmsNorm};
use lockstep_kernels::{Architecture, Device, Element, Entry, Kernel, Launch};

use crate::attention::{MODELS, Row};
use crate::common::{ORDERS, compiler, junk, upload};

const BARRIER: &str = "__syncthreads();";
/// What every wait of the dialect begins with, and of PTX.
const WAIT: &str = "__sync";
const PTX_WAITS: [&str; 2] = ["bar.", "barrier."];

/// A file with barriers: how many, and the kernels that meet them.
struct Barriers {
    file: &'static str,
    count: usize,
    cases: &'static [(Kernel, Case)],
}

const BARRIERS: [Barriers; 5] = [
    Barriers {
        file: "reduce.cuh",
        count: 1,
        cases: &[(Kernel::RmsNorm, rmsnorm), (Kernel::AddRmsNorm, add_rmsnorm)],
    },
    Barriers {
        file: "matmul.cu",
        count: 2,
        cases: &[(Kernel::Gemv, |cpu| matmul(cpu, 1)), (Kernel::Gemm, |cpu| matmul(cpu, 2))],
    },
    Barriers { file: "attention.cu", count: 3, cases: &[(Kernel::Attention, attention)] },
    Barriers { file: "choice.cu", count: 1, cases: &[(Kernel::Argmax, argmax), (Kernel::Sample, sample)] },
    Barriers { file: "vote_min.cu", count: 1, cases: &[(Kernel::VoteMin, vote_min)] },
];

/// One launch of a kernel in a shape in which every barrier matters.
type Case = fn(&mut Cpu) -> Result<(), CpuError>;

fn rmsnorm(cpu: &mut Cpu) -> Result<(), CpuError> {
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
}

fn add_rmsnorm(cpu: &mut Cpu) -> Result<(), CpuError> {
    let (mut output, mut hidden) = (junk(cpu, 400), upload(cpu, &[1.0_f32; 400]));
    let (summand, weight) = (upload(cpu, &[1.0_f32; 400]), upload(cpu, &[1.0_f32; 200]));
    let (output, hidden) = (&mut output, &mut hidden);
    let (summand, weight) = (&summand, &weight);
    cpu.run(AddRmsNorm { output, hidden, summand, weight, rows: 2, width: 200, epsilon: 1.0 })
}

fn matmul(cpu: &mut Cpu, rows: u32) -> Result<(), CpuError> {
    let (mut output, input) =
        (junk(cpu, 17 * rows as usize), upload(cpu, &vec![1.0_f32; 300 * rows as usize]));
    let weight = upload(cpu, &[1.0_f32; 17 * 300]);
    cpu.run(Matmul { output: &mut output, input: &input, weight: &weight, rows, outputs: 17, inputs: 300 })
}

fn attention(cpu: &mut Cpu) -> Result<(), CpuError> {
    let model = MODELS[1];
    let row = Row { start: 38, end: 40, ..model.row(0, 0, 40) };
    let cache = model.cache(Element::F32, std::slice::from_ref(&row), 5);
    model.attend(cpu, (Element::F32, &cache), &[row], 2).map(|_| ())
}

fn argmax(cpu: &mut Cpu) -> Result<(), CpuError> {
    let (mut bids, logits) = (upload(cpu, &[0_u64]), upload(cpu, &[1.0_f32; 100]));
    cpu.run(Argmax { bids: &mut bids, logits: &logits, rows: 1, width: 100, first_token: 0 })
}

fn sample(cpu: &mut Cpu) -> Result<(), CpuError> {
    let (mut bids, logits) = (upload(cpu, &[0_u64]), upload(cpu, &[1.0_f32; 100]));
    let (seeds, temperatures) = (upload(cpu, &[3_u64]), upload(cpu, &[1.0_f32]));
    let (bids, logits, seeds, temperatures) = (&mut bids, &logits, &seeds, &temperatures);
    cpu.run(Sample { bids, logits, seeds, temperatures, width: 100, first_token: 0 })
}

fn vote_min(cpu: &mut Cpu) -> Result<(), CpuError> {
    let (mut output, votes) = (upload(cpu, &[0_u64; 33]), upload(cpu, &[1_u64; 7 * 33]));
    cpu.run(VoteMin { output: &mut output, votes: &votes, ranks: 7, width: 33 })
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cuda")
}

fn text_of(file: &str) -> String {
    fs::read_to_string(folder().join(file)).expect("a committed source")
}

fn compile(source: Source) -> Program {
    compiler(Sanitizers::Off).compile(&[source]).unwrap_or_else(|error| panic!("{error}"))
}

/// The source of a kernel with the barrier of this number in this file replaced: its own file, or a header, which is put
/// in its place.
fn mutant(kernel: Kernel, (file, number): (&str, usize), replacement: &str) -> Source {
    let mut text = text_of(file);
    let (start, _) = text.match_indices(BARRIER).nth(number).expect("a barrier of this number");
    text.replace_range(start..start + BARRIER.len(), replacement);
    let mut source = Source::of(kernel).expect("a committed source");
    source.text = if source.name == file {
        text
    } else {
        let include = format!("#include \"{file}\"");
        assert!(source.text.contains(&include), "{kernel} does not include {file}");
        source.text.replace(&include, &text.replace("#pragma once", ""))
    };
    source.name += &format!(" with another barrier {number} of {file}");
    source
}

/// Every kernel that meets a barrier, with that barrier replaced, and the case that must notice.
fn mutants(replacement: &str) -> impl Iterator<Item = (Kernel, Source, Case)> {
    let numbered = BARRIERS.into_iter().flat_map(|Barriers { file, count, cases }| {
        (0..count).flat_map(move |number| cases.iter().map(move |case| ((file, number), case)))
    });
    numbered.map(move |(barrier, &(kernel, case))| (kernel, mutant(kernel, barrier, replacement), case))
}

/// The waits of a source, outside its comments.
fn waits(text: &str) -> usize {
    let code = text.lines().filter_map(|line| line.split("//").next());
    code.map(|code| code.matches(WAIT).count()).sum()
}

/// Reports of a changed kernel in every thread order.
fn reports(kernel: Kernel, source: Source, case: Case) -> Vec<String> {
    let name = source.name.clone();
    let mut cpu = compile(source).start().expect("the program starts");
    let run = |order| {
        cpu.order_threads(order);
        let result = case(&mut cpu);
        result.expect_err(&format!("{kernel} of {name}, order {order}: the bug is not caught")).to_string()
    };
    ORDERS.map(run).collect()
}

fn is_race(report: &str) -> bool {
    report.contains("races with") || report.contains("no thread of the block has written")
}

#[test]
fn barriers_of_the_sources_are_those_that_are_dropped() {
    let files = fs::read_dir(folder()).expect("the folder of sources");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a plain name"));
    let mut found: BTreeMap<String, usize> =
        names.map(|name| (name.clone(), waits(&text_of(&name)))).collect();
    found.retain(|_, waits| *waits > 0);
    let dropped = BARRIERS.map(|of| (of.file.to_owned(), of.count)).into();
    assert_eq!(found, dropped, "a barrier more or less: each needs a case in BARRIERS that misses it");
}

/// A header's barrier is met by whoever calls it, which the compiler knows best.
#[test]
fn barriers_of_the_ptx_are_met_by_kernels_with_a_case() {
    let waits = |entry: &Entry| {
        let ptx = entry.kernel().ptx(Architecture::Sm80);
        let (_, body) = ptx.split_once(&format!(".entry {entry}(")).expect("the entry");
        let body = body.split(".entry").next().unwrap_or_default();
        body.split_whitespace().any(|word| PTX_WAITS.iter().any(|wait| word.starts_with(wait)))
    };
    let found: BTreeSet<Kernel> = Entry::all().filter(waits).map(Entry::kernel).collect();
    let cases = BARRIERS.iter().flat_map(|of| of.cases.iter().map(|(kernel, _)| *kernel));
    assert_eq!(found, cases.collect());
}

#[test]
fn bug_dropped_barrier_is_reported_in_every_thread_order() {
    for (kernel, source, case) in mutants("") {
        for report in reports(kernel, source, case) {
            assert!(is_race(&report), "{kernel}: {report}");
        }
    }
}

#[test]
fn bug_divergent_barrier_is_reported_in_every_thread_order() {
    for (kernel, source, case) in mutants("if (threadIdx.x < 16) __syncthreads();") {
        for report in reports(kernel, source, case) {
            assert!(is_race(&report) || report.contains("divergence: of "), "{kernel}: {report}");
        }
    }
}

#[test]
fn bug_early_return_before_a_barrier_is_reported() {
    let mut source = Source::of(Kernel::VoteMin).expect("a committed source");
    let before = "    minima[own] = element < width";
    source.text = source.text.replace(before, &format!("    if (element >= width) return;\n{before}"));
    for report in reports(Kernel::VoteMin, source, vote_min) {
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
