//! Pages into one piece and back.

use lockstep_kernels::cpu::Cpu;
use lockstep_kernels::operations::paged::{CacheShape, GatherPages, ScatterPages};
use lockstep_kernels::{Device, Element};

use crate::common::{ORDERS, SEEDS, cpu, floats, pairs, upload};
use crate::numbers::Random;

/// Pages of one word, of an odd number of them, of one more than a block has threads, and of several blocks of words.
const SHAPES: [(CacheShape, Element); 4] = [
    (CacheShape { pages: 6, layers: 1, page_size: 1, kv_heads: 1, head_dim: 2 }, Element::Bf16),
    (CacheShape { pages: 5, layers: 3, page_size: 5, kv_heads: 1, head_dim: 6 }, Element::Bf16),
    (CacheShape { pages: 7, layers: 1, page_size: 1, kv_heads: 1, head_dim: 257 * 2 }, Element::Bf16),
    (CacheShape { pages: 6, layers: 4, page_size: 16, kv_heads: 4, head_dim: 32 }, Element::F32),
];

fn page_bytes(shape: CacheShape, element: Element) -> usize {
    usize::try_from(shape.page_elements() * element.bytes()).expect("small")
}

/// The listed pages of a cache with these bytes.
fn gathered(cpu: &mut Cpu, (shape, element): (CacheShape, Element), cache: &[u8], listed: &[u32]) -> Vec<u8> {
    let staging = vec![7; listed.len() * page_bytes(shape, element)];
    let mut staging = cpu.upload_bytes(element, &staging).expect("whole elements");
    let cache = cpu.upload_bytes(element, cache).expect("whole elements");
    let listed = upload(cpu, listed);
    let gather = GatherPages { staging: &mut staging, cache: &cache, listed: &listed, shape };
    cpu.run(gather).expect("a launch");
    cpu.download_bytes(&staging).expect("a buffer")
}

/// A cache with these bytes once `staging` is in its listed pages.
fn scattered(
    cpu: &mut Cpu,
    (shape, element): (CacheShape, Element),
    cache: &[u8],
    (staging, listed): (&[u8], &[u32]),
) -> Vec<u8> {
    let mut cache = cpu.upload_bytes(element, cache).expect("whole elements");
    let staging = cpu.upload_bytes(element, staging).expect("whole elements");
    let listed = upload(cpu, listed);
    let scatter = ScatterPages { cache: &mut cache, staging: &staging, listed: &listed, shape };
    cpu.run(scatter).expect("a launch");
    cpu.download_bytes(&cache).expect("a buffer")
}

#[test]
fn pages_survive_the_round_trip_and_leave_others_alone() {
    let mut cpu = cpu();
    for ((of, count), (order, seed)) in pairs(pairs(SHAPES, [1, 3, 5]), pairs(ORDERS, SEEDS)) {
        let (shape, element) = of;
        cpu.order_threads(order);
        let mut random = Random(seed);
        let content = random.exact(usize::try_from(shape.elements()).expect("small"), element);
        let all = floats(&mut cpu, element, &content);
        let all = cpu.download_bytes(&all).expect("a buffer");
        let bytes = page_bytes(shape, element);
        let case = format!("{count} of {shape:?}, order {order}, seed {seed}");

        let listed = &random.shuffled(shape.pages)[..count];
        let moved = gathered(&mut cpu, of, &all, listed);
        let expected: Vec<&[u8]> =
            listed.iter().map(|&page| &all[page as usize * bytes..][..bytes]).collect();
        assert_eq!(moved, expected.concat(), "{case}");

        let (listed, mut expected) = (&random.shuffled(shape.pages)[..count], vec![9; all.len()]);
        let found = scattered(&mut cpu, of, &expected, (&moved, listed));
        for (&page, content) in listed.iter().zip(moved.chunks(bytes)) {
            expected[page as usize * bytes..][..bytes].copy_from_slice(content);
        }
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn pages_beyond_the_cache_are_gathered_as_nan_and_scattered_nowhere() {
    let mut cpu = cpu();
    for (of, order) in pairs(SHAPES, ORDERS) {
        let (shape, element) = of;
        cpu.order_threads(order);
        let bytes = page_bytes(shape, element);
        let before = vec![3; bytes * shape.pages as usize];
        let listed = [shape.pages, u32::MAX];
        let found = gathered(&mut cpu, of, &before, &listed);
        assert_eq!(found, vec![0xFF; 2 * bytes], "{shape:?}, order {order}");
        let after = scattered(&mut cpu, of, &before, (&found, &listed));
        assert_eq!(after, before, "{shape:?}, order {order}");
    }
}
