//! The kernels as programs of the CPU, compiled once for all tests.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use lockstep_kernels::cpu::{Compiler, Cpu, CpuBuffer, Program, Sanitizers, Source};
use lockstep_kernels::element::bytes_of;
use lockstep_kernels::{Device, Element, Entry, Plain};

use crate::numbers::encode;

/// Thread orders of every case: ascending, and shuffles.
pub(crate) const ORDERS: Range<u32> = 0..3;
/// Seeds of every case's inputs.
pub(crate) const SEEDS: Range<u64> = 1..4;
/// Types of weights.
pub(crate) const WEIGHTS: [Element; 3] = [Element::F32, Element::Bf16, Element::F16];
/// Types of caches.
pub(crate) const CACHES: [Element; 2] = [Element::F32, Element::Bf16];

pub(crate) fn compiler(sanitizers: Sanitizers) -> Compiler {
    Compiler::new(Path::new(env!("CARGO_TARGET_TMPDIR")), sanitizers)
}

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let sources = Source::all().unwrap_or_else(|error| panic!("{error}"));
        compiler(Sanitizers::On).compile(&sources).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// A fresh process of all kernels.
pub(crate) fn cpu() -> Cpu {
    program().start().unwrap_or_else(|error| panic!("{error}"))
}

/// A buffer of `f32`, of `element` if it is narrower.
pub(crate) fn floats(cpu: &mut Cpu, element: Element, values: &[f32]) -> CpuBuffer {
    cpu.upload_bytes(element, &encode(element, values)).expect("whole elements")
}

/// A buffer whose content must not matter.
pub(crate) fn junk(cpu: &mut Cpu, length: usize) -> CpuBuffer {
    cpu.upload(&vec![f32::MAX; length]).expect("a buffer")
}

pub(crate) fn upload<T: Plain>(cpu: &mut Cpu, values: &[T]) -> CpuBuffer {
    cpu.upload(values).expect("a buffer")
}

pub(crate) fn download<T: Plain>(cpu: &mut Cpu, buffer: &CpuBuffer) -> Vec<T> {
    cpu.download(buffer).expect("a buffer of this type")
}

/// What a computation gives: the same bits in every thread order.
pub(crate) fn in_every_order<T: Plain>(
    cpu: &mut Cpu,
    case: &str,
    mut compute: impl FnMut(&mut Cpu) -> Vec<T>,
) -> Vec<T> {
    let mut run = |order| {
        cpu.order_threads(order);
        compute(cpu)
    };
    let first = run(ORDERS.start);
    for order in ORDERS.skip(1) {
        assert!(bytes_of(&run(order)) == bytes_of(&first), "{case}: order {order} gives other bits");
    }
    first
}

/// Every pair of the two.
pub(crate) fn pairs<A: Clone, B: Clone>(
    left: impl IntoIterator<Item = A>,
    right: impl IntoIterator<Item = B>,
) -> Vec<(A, B)> {
    let right: Vec<B> = right.into_iter().collect();
    let with = |left: A| right.iter().cloned().map(move |right| (left.clone(), right));
    left.into_iter().flat_map(with).collect()
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn table_agrees_with_the_signatures_of_the_sources() {
    let mut found = program().signatures().expect("the program runs");
    let mut expected: Vec<_> = Entry::all().map(Entry::signature).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}
