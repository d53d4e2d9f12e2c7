//! Rotary turns and appends to the cache, against the formulas of the CPU engine.

use lockstep_kernels::cpu::Cpu;
use lockstep_kernels::operations::paged::{CacheShape, Places, RopeAppend};
use lockstep_kernels::{Device, Element};

use crate::common::{CACHES, SEEDS, cpu, download, floats, in_every_order, pairs, upload};
use crate::numbers::{Random, assert_close, decode, encode};

/// Page lists of the two rows of a batch.
const PAGES: [[u32; 3]; 2] = [[4, 0, 99], [2, 3, 1]];
/// What the cache holds before.
const UNTOUCHED: f32 = 0.5;

/// Row and position of each place of a batch.
type Batch = [(u32, u32)];

/// Sizes of a cache, and what turns into it.
#[derive(Clone, Copy, Debug)]
struct Model {
    shape: CacheShape,
    heads: u32,
    layer: u32,
    context: u32,
}

/// One pair and several a head; pages of one position and of several; more pairs than a block has threads (128).
const MODELS: [Model; 5] =
    [model(4, 4, 2, 6), model(1, 1, 1, 2), model(4, 3, 1, 10), model(5, 6, 2, 34), model(2, 8, 8, 64)];

const fn model(page_size: u32, heads: u32, kv_heads: u32, head_dim: u32) -> Model {
    let shape = CacheShape { pages: 5, layers: 2, page_size, kv_heads, head_dim };
    Model { shape, heads, layer: 1, context: 3 * page_size }
}

/// What the kernel is given for its batch, and what it leaves.
struct Appended {
    queries: Vec<f32>,
    cache: Vec<f32>,
}

impl Model {
    fn query_width(self) -> usize {
        (self.heads * self.shape.head_dim) as usize
    }

    /// Elements of a position's keys, or values.
    fn width(self) -> usize {
        (self.shape.kv_heads * self.shape.head_dim) as usize
    }

    /// Sine and cosine of every position and pair.
    fn turns(self) -> Vec<(f64, f64)> {
        let half = self.shape.head_dim / 2;
        let angle = |place: u32| f64::from(place / half) / 10f64.powf(f64::from(place % half) / 3.0);
        (0..self.context * half).map(|place| angle(place).sin_cos()).collect()
    }

    /// Some of the positions that have a page, each once: all of them if there are not as many.
    fn batch(self, seed: u64, count: usize) -> Vec<(u32, u32)> {
        let size = self.shape.page_size;
        let listed = Random(seed).shuffled(5 * size).into_iter();
        listed
            .map(|place| if place < 2 * size { (0, place) } else { (1, place - 2 * size) })
            .take(count)
            .collect()
    }

    fn inputs(self, batch: &Batch, seed: u64) -> [Vec<f32>; 3] {
        let mut random = Random(seed);
        [self.query_width(), self.width(), self.width()].map(|width| random.floats(batch.len() * width))
    }

    fn append(self, cpu: &mut Cpu, element: Element, batch: &Batch, inputs: &[Vec<f32>; 3]) -> Appended {
        let [queries, keys, values] = inputs;
        let [mut queries, keys, values] = [queries, keys, values].map(|values| upload(cpu, values));
        let untouched = vec![UNTOUCHED; usize::try_from(self.shape.elements()).expect("small")];
        let mut cache = floats(cpu, element, &untouched);
        #[expect(clippy::cast_possible_truncation, reason = "rounded to single precision")]
        let turns: Vec<f32> = self.turns().iter().flat_map(|(sin, cos)| [*cos as f32, *sin as f32]).collect();
        let turns = upload(cpu, &turns);
        let rows = upload(cpu, &batch.iter().map(|place| place.0).collect::<Vec<_>>());
        let positions = upload(cpu, &batch.iter().map(|place| place.1).collect::<Vec<_>>());
        let pages = upload(cpu, &PAGES.concat());
        let Self { shape, heads, layer, context } = self;
        let operation = RopeAppend {
            queries: &mut queries,
            cache: &mut cache,
            keys: &keys,
            values: &values,
            turns: &turns,
            places: Places {
                rows: &rows,
                positions: &positions,
                pages: &pages,
                batch_rows: 2,
                list_length: 3,
            },
            shape,
            heads,
            layer,
            context,
        };
        cpu.run(operation).expect("a launch");
        let bytes = cpu.download_bytes(&cache).expect("a buffer");
        Appended { queries: download(cpu, &queries), cache: decode(element, &bytes) }
    }

    /// What [`append`](Self::append) leaves in any thread order.
    fn appended(self, cpu: &mut Cpu, element: Element, batch: &Batch, inputs: &[Vec<f32>; 3]) -> Appended {
        let case = format!("{self:?}, {element}, {batch:?}");
        let mut both = in_every_order(cpu, &case, |cpu| {
            let Appended { queries, cache } = self.append(cpu, element, batch, inputs);
            [queries, cache].concat()
        });
        let cache = both.split_off(inputs[0].len());
        Appended { queries: both, cache }
    }

    /// Every head of `values` turned by `position`.
    fn turned(self, values: &[f32], position: u32) -> Vec<f64> {
        let half = self.shape.head_dim as usize / 2;
        let turns = &self.turns()[position as usize * half..][..half];
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
    fn slot(self, page: u32, side: usize, position: u32) -> usize {
        let CacheShape { layers, page_size, .. } = self.shape;
        let block = (page as usize * layers as usize + self.layer as usize) * 2 + side;
        (block * page_size as usize + (position % page_size) as usize) * self.width()
    }

    fn check(self, cpu: &mut Cpu, element: Element, batch: &Batch, (seed, tolerance): (u64, f64)) {
        let inputs = self.inputs(batch, seed);
        let found = self.appended(cpu, element, batch, &inputs);
        let [queries, keys, values] = inputs;
        let mut expected = vec![f64::from(UNTOUCHED); found.cache.len()];
        let (query_width, width) = (self.query_width(), self.width());
        let case = format!("{self:?}, {element}, seed {seed}, {batch:?}");
        for (place, &(row, position)) in batch.iter().enumerate() {
            let page = PAGES[row as usize][(position / self.shape.page_size) as usize];
            let query = self.turned(&queries[place * query_width..][..query_width], position);
            assert_close(&found.queries[place * query_width..][..query_width], &query, TOLERANCE, &case);
            let key = self.turned(&keys[place * width..][..width], position);
            expected[self.slot(page, 0, position)..][..width].copy_from_slice(&key);
            let value = decode(element, &encode(element, &values[place * width..][..width]));
            assert_eq!(found.cache[self.slot(page, 1, position)..][..width], value, "{case}");
            let value: Vec<f64> = value.into_iter().map(f64::from).collect();
            expected[self.slot(page, 1, position)..][..width].copy_from_slice(&value);
        }
        assert_close(&found.cache, &expected, tolerance, &format!("the cache, {case}"));
    }
}

/// The error of a turn in single precision.
const TOLERANCE: f64 = 1e-6;

#[test]
fn rope_append_turns_and_writes_the_listed_slots_alone() {
    let mut cpu = cpu();
    for ((model, layer), (count, seed)) in pairs(pairs(MODELS, [0, 1]), pairs([1, 5, 25], SEEDS)) {
        let (model, batch) = (Model { layer, ..model }, model.batch(seed, count));
        model.check(&mut cpu, Element::F32, &batch, (seed, TOLERANCE));
        model.check(&mut cpu, Element::Bf16, &batch, (seed, 1.0 / 256.0));
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
    let model = MODELS[0];
    let [queries, keys, _] = model.inputs(&[(0, 0)], 1);
    let found = model.append(&mut cpu(), Element::Bf16, &[(0, 0)], &[queries, keys, values]);
    let slot = &found.cache[model.slot(4, 1, 0)..][..model.width()];
    let found: Vec<u32> = slot.iter().map(|value| value.to_bits() >> 16).collect();
    assert_eq!(found, expected);
}

#[test]
fn rope_append_beyond_the_context_writes_nothing_and_spoils_the_query() {
    let mut cpu = cpu();
    for (model, element) in pairs(MODELS, CACHES) {
        // Row 1 has a page for each of these but the last.
        let model = Model { context: 2 * model.shape.page_size, ..model };
        let batch = [(1, model.context), (1, 3 * model.shape.page_size - 1), (1, u32::MAX)];
        let found = model.appended(&mut cpu, element, &batch, &model.inputs(&batch, 1));
        assert!(found.queries.iter().all(|value| value.is_nan()), "{model:?}: {:?}", found.queries);
        assert!(found.cache.iter().all(|value| *value == UNTOUCHED), "{model:?}");
    }
}

#[test]
fn rope_append_without_a_page_writes_nothing() {
    let mut cpu = cpu();
    for (model, element) in pairs(MODELS, CACHES) {
        let size = model.shape.page_size;
        let model = Model { context: 4 * size, ..model };
        // A page beyond the cache, a position beyond the list, a row beyond the lists.
        let batch = [(0, 2 * size), (1, 3 * size), (2, 0)];
        let found = model.appended(&mut cpu, element, &batch, &model.inputs(&batch, 1));
        assert!(found.cache.iter().all(|value| *value == UNTOUCHED), "{model:?}");
        assert!(found.queries.iter().all(|value| value.is_finite()), "{model:?}: {:?}", found.queries);
    }
}
