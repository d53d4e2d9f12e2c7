//! Pages into one piece and back.

use lockstep_kernels::operations::paged::{CacheShape, GatherPages, ScatterPages};
use lockstep_kernels::{Device, Element};

use crate::common::{ORDERS, cpu, floats, upload};
use crate::numbers::Random;

/// A page of `f32` is several blocks of words; one of `bf16` has an odd number of them.
const SHAPES: [(CacheShape, Element); 3] = [
    (CacheShape { pages: 6, layers: 1, page_size: 1, kv_heads: 1, head_dim: 2 }, Element::Bf16),
    (CacheShape { pages: 5, layers: 3, page_size: 5, kv_heads: 1, head_dim: 6 }, Element::Bf16),
    (CacheShape { pages: 6, layers: 4, page_size: 16, kv_heads: 4, head_dim: 32 }, Element::F32),
];

#[test]
fn pages_survive_the_round_trip_and_leave_others_alone() {
    let mut cpu = cpu();
    for ((shape, element), order) in
        SHAPES.into_iter().flat_map(|case| ORDERS.map(move |order| (case, order)))
    {
        cpu.order_threads(order);
        let content = Random(1).exact(usize::try_from(shape.elements()).expect("small"), element);
        let cache = floats(&mut cpu, element, &content);
        let page_bytes = usize::try_from(shape.page_elements() * element.bytes()).expect("small");
        let mut staging = cpu.upload_bytes(element, &vec![7; 3 * page_bytes]).expect("whole elements");
        let listed = upload(&mut cpu, &[4_u32, 0, 2]);
        let gather = GatherPages { staging: &mut staging, cache: &cache, listed: &listed, shape };
        cpu.run(gather).expect("a launch");
        let (all, moved) = (cpu.download_bytes(&cache).unwrap(), cpu.download_bytes(&staging).unwrap());
        let expected = [4, 0, 2].map(|page| &all[page * page_bytes..][..page_bytes]).concat();
        assert_eq!(moved, expected, "{shape:?}");

        let mut target = cpu.upload_bytes(element, &vec![9; all.len()]).expect("whole elements");
        let listed = upload(&mut cpu, &[1_u32, 3, 0]);
        let scatter = ScatterPages { cache: &mut target, staging: &staging, listed: &listed, shape };
        cpu.run(scatter).expect("a launch");
        let mut expected = vec![9; all.len()];
        for (page, content) in [1, 3, 0].into_iter().zip(moved.chunks(page_bytes)) {
            expected[page * page_bytes..][..page_bytes].copy_from_slice(content);
        }
        assert_eq!(cpu.download_bytes(&target).unwrap(), expected, "{shape:?}");
    }
}

#[test]
fn pages_beyond_the_cache_are_gathered_as_nan_and_scattered_nowhere() {
    let mut cpu = cpu();
    let (shape, element) = SHAPES[1];
    let content = vec![1.0; usize::try_from(shape.elements()).expect("small")];
    let mut cache = floats(&mut cpu, element, &content);
    let page_bytes = usize::try_from(shape.page_elements() * element.bytes()).expect("small");
    let mut staging = cpu.upload_bytes(element, &vec![7; 2 * page_bytes]).expect("whole elements");
    let listed = upload(&mut cpu, &[5, u32::MAX]);
    let gather = GatherPages { staging: &mut staging, cache: &cache, listed: &listed, shape };
    cpu.run(gather).expect("a launch");
    assert_eq!(cpu.download_bytes(&staging).unwrap(), vec![0xFF; 2 * page_bytes]);
    let before = cpu.download_bytes(&cache).unwrap();
    let scatter = ScatterPages { cache: &mut cache, staging: &staging, listed: &listed, shape };
    cpu.run(scatter).expect("a launch");
    assert_eq!(cpu.download_bytes(&cache).unwrap(), before);
}
