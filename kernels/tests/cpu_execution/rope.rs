//! Rotary turns and appends to the cache, against the formulas of the CPU engine.

use lockstep_kernels::cpu::Cpu;
use lockstep_kernels::operations::paged::{CacheShape, Places, RopeAppend};
use lockstep_kernels::{Device, Element};

use crate::common::{ORDERS, cpu, download, floats, upload};
use crate::numbers::{Random, assert_close, decode, encode};

const HEADS: usize = 4;
const CONTEXT: usize = 40;
const SHAPE: CacheShape = CacheShape { pages: 5, layers: 2, page_size: 4, kv_heads: 2, head_dim: 6 };
const WIDTH: usize = 12;
const LAYER: usize = 1;
/// Page lists of the two rows of the batch.
const PAGES: [[u32; 3]; 2] = [[4, 0, 99], [2, 3, 1]];

/// Row and position of each place of a batch.
type Batch = [(u32, u32)];

/// What the kernel is given, and what it leaves.
struct Appended {
    queries: Vec<f32>,
    cache: Vec<f32>,
}

fn turns() -> Vec<(f64, f64)> {
    let half = SHAPE.head_dim / 2;
    let angle = |place: u32| f64::from(place / half) / 10f64.powf(f64::from(place % half) / 3.0);
    (0..u32::try_from(CONTEXT).expect("small") * half).map(|place| angle(place).sin_cos()).collect()
}

fn inputs(batch: &Batch) -> [Vec<f32>; 3] {
    [(1, HEADS * 6), (2, WIDTH), (3, WIDTH)].map(|(seed, width)| Random(seed).floats(batch.len() * width))
}

fn append(cpu: &mut Cpu, element: Element, batch: &Batch) -> Appended {
    append_inputs(cpu, element, batch, inputs(batch))
}

fn append_inputs(cpu: &mut Cpu, element: Element, batch: &Batch, inputs: [Vec<f32>; 3]) -> Appended {
    let [mut queries, keys, values] = inputs.map(|values| upload(cpu, &values));
    let untouched = vec![0.5; usize::try_from(SHAPE.elements()).expect("small")];
    let mut cache = floats(cpu, element, &untouched);
    #[expect(clippy::cast_possible_truncation, reason = "rounded to single precision")]
    let turns: Vec<f32> = turns().iter().flat_map(|(sin, cos)| [*cos as f32, *sin as f32]).collect();
    let turns = upload(cpu, &turns);
    let rows = upload(cpu, &batch.iter().map(|place| place.0).collect::<Vec<_>>());
    let positions = upload(cpu, &batch.iter().map(|place| place.1).collect::<Vec<_>>());
    let pages = upload(cpu, &PAGES.concat());
    let operation = RopeAppend {
        queries: &mut queries,
        cache: &mut cache,
        keys: &keys,
        values: &values,
        turns: &turns,
        places: Places { rows: &rows, positions: &positions, pages: &pages, batch_rows: 2, list_length: 3 },
        shape: SHAPE,
        heads: u32::try_from(HEADS).expect("small"),
        layer: u32::try_from(LAYER).expect("small"),
        context: u32::try_from(CONTEXT).expect("small"),
    };
    cpu.run(operation).expect("a launch");
    let bytes = cpu.download_bytes(&cache).expect("a buffer");
    Appended { queries: download(cpu, &queries), cache: decode(element, &bytes) }
}

/// Every head of `values` turned by `position`.
fn turned(values: &[f32], position: u32) -> Vec<f64> {
    let half = SHAPE.head_dim as usize / 2;
    let turns = &turns()[position as usize * half..][..half];
    let head = |head: &[f32]| {
        let (first, second) = head.split_at(half);
        let pairs = || first.iter().zip(second).zip(turns);
        let firsts = pairs().map(|((a, b), (sin, cos))| f64::from(*a) * cos - f64::from(*b) * sin);
        let seconds = pairs().map(|((a, b), (sin, cos))| f64::from(*b) * cos + f64::from(*a) * sin);
        firsts.chain(seconds).collect::<Vec<_>>()
    };
    values.chunks(2 * half).flat_map(head).collect()
}

/// Where the cache has a position's keys (side 0) or values (side 1).
fn slot(page: u32, side: usize, position: u32) -> usize {
    let block = (page as usize * SHAPE.layers as usize + LAYER) * 2 + side;
    (block * SHAPE.page_size as usize + position as usize % SHAPE.page_size as usize) * WIDTH
}

fn check(element: Element, order: u32, tolerance: f64) {
    let batch = [(1, 0), (0, 5), (1, 1), (1, 9), (0, 3)];
    let mut cpu = cpu();
    cpu.order_threads(order);
    let found = append(&mut cpu, element, &batch);
    let [queries, keys, values] = inputs(&batch);
    let mut expected = vec![0.5; found.cache.len()];
    for (place, &(row, position)) in batch.iter().enumerate() {
        let page = PAGES[row as usize][position as usize / 4];
        let case = format!("{element}, order {order}, place {place}");
        let width = HEADS * 6;
        let query = &found.queries[place * width..][..width];
        assert_close(query, &turned(&queries[place * width..][..width], position), 1e-6, &case);
        let key = turned(&keys[place * WIDTH..][..WIDTH], position);
        expected[slot(page, 0, position)..][..WIDTH].copy_from_slice(&key);
        let value = decode(element, &encode(element, &values[place * WIDTH..][..WIDTH]));
        assert_eq!(found.cache[slot(page, 1, position)..][..WIDTH], value, "{case}");
        let value: Vec<f64> = value.into_iter().map(f64::from).collect();
        expected[slot(page, 1, position)..][..WIDTH].copy_from_slice(&value);
    }
    assert_close(&found.cache, &expected, tolerance, &format!("the cache, {element}, order {order}"));
}

#[test]
fn rope_append_turns_and_writes_the_listed_slots_alone() {
    for order in ORDERS {
        check(Element::F32, order, 1e-6);
        check(Element::Bf16, order, 1.0 / 256.0);
    }
}

#[test]
fn rope_append_rounds_to_the_nearest_bfloat_and_keeps_what_is_not_finite() {
    // 1 and 1 + 2^-7 are neighbours: below, on and above the middle, at the even and at the odd one.
    let middles = [0x3F80_7FFF, 0x3F80_8000, 0x3F80_8001, 0x3F81_7FFF, 0x3F81_8000, 0xBF81_8001];
    let special = [0x7F80_0000, 0xFF80_0000, 0x7F80_0001, 0xFFFF_FFFF, 0x7F7F_FFFF, 0x0000_8001];
    let expected =
        [0x3F80, 0x3F80, 0x3F81, 0x3F81, 0x3F82, 0xBF82, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F80, 1];
    let values: Vec<f32> = middles.iter().chain(&special).map(|bits| f32::from_bits(*bits)).collect();
    let [queries, keys, _] = inputs(&[(0, 0)]);
    let found = append_inputs(&mut cpu(), Element::Bf16, &[(0, 0)], [queries, keys, values]);
    let found: Vec<u32> =
        found.cache[slot(4, 1, 0)..][..WIDTH].iter().map(|value| value.to_bits() >> 16).collect();
    assert_eq!(found, expected);
}

#[test]
fn rope_append_beyond_the_context_writes_nothing_and_spoils_the_query() {
    let mut cpu = cpu();
    let found = append(&mut cpu, Element::F32, &[(0, 40), (1, u32::MAX)]);
    assert!(found.queries.iter().all(|value| value.is_nan()), "{:?}", found.queries);
    assert!(found.cache.iter().all(|value| *value == 0.5));
}

#[test]
fn rope_append_without_a_page_writes_nothing() {
    let mut cpu = cpu();
    // A page beyond the cache, a position beyond the list, a row beyond the lists.
    let found = append(&mut cpu, Element::F32, &[(0, 8), (1, 12), (2, 0)]);
    assert!(found.cache.iter().all(|value| *value == 0.5));
}
