//! Appends to the cache, attention over it, and its pages on their way.

use lockstep_kernels::operations::attention::{Attention, tile_limit, tiles};
use lockstep_kernels::operations::paged::{CacheShape, GatherPages, Places, RopeAppend, ScatterPages};
use lockstep_kernels::operations::rows::GatherRows;
use lockstep_kernels::{Buffer, Device, Element};

use super::alone::{Expected, named};
use super::numbers::{bfloats, dot, encoded, floats, numbers, reader, rounded};

/// Query heads, in groups of two.
const HEADS: u32 = 4;
/// The layer that is worked on, of two.
const LAYER: u32 = 1;
/// A page that no cache has.
const NO_PAGE: u32 = 99;

const APPENDED: CacheShape = CacheShape { pages: 5, layers: 2, page_size: 4, kv_heads: 2, head_dim: 6 };
const CONTEXT: u32 = 10;
const APPENDED_PAGES: [[u32; 3]; 2] = [[4, 0, NO_PAGE], [2, 3, 1]];
/// Rows and positions: the last but one is beyond the context, the last has no page.
const APPENDED_ROWS: [u32; 7] = [1, 0, 1, 1, 0, 1, 0];
const APPENDED_POSITIONS: [u32; 7] = [0, 5, 1, 9, 3, 11, 8];

/// Queries and keys that turn, and the cache to which they are appended.
#[derive(Debug)]
pub(super) struct Appended<B> {
    element: Element,
    table: B,
    indices: B,
    queries: B,
    keys: B,
    values: B,
    turns: B,
    rows: B,
    positions: B,
    pages: B,
    cache: B,
}

impl<B: Buffer> Appended<B> {
    pub(super) fn upload<D: Device<Buffer = B>>(device: &mut D, element: Element) -> Result<Self, D::Error> {
        let [queries, keys, values, turns, cache] = append_inputs();
        Ok(Self {
            element,
            table: device.upload(&queries)?,
            indices: device.upload(&[0u32, 1, 2, 3, 4, 5, 6])?,
            queries: device.upload(&queries)?,
            keys: device.upload(&keys)?,
            values: device.upload(&values)?,
            turns: device.upload(&turns)?,
            rows: device.upload(&APPENDED_ROWS)?,
            positions: device.upload(&APPENDED_POSITIONS)?,
            pages: device.upload(&APPENDED_PAGES.concat())?,
            cache: device.upload_bytes(element, &encoded(element, &cache))?,
        })
    }

    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { table, indices, queries, keys, values, turns, rows, positions, pages, cache, .. } = self;
        let width = HEADS * APPENDED.head_dim;
        device.run(GatherRows { output: queries, table, indices, entries: 7, width })?;
        let places = Places { rows, positions, pages, batch_rows: 2, list_length: 3 };
        let (shape, heads, layer, context) = (APPENDED, HEADS, LAYER, CONTEXT);
        device.run(RopeAppend { queries, cache, keys, values, turns, places, shape, heads, layer, context })
    }

    pub(super) fn written(&self) -> [(String, &B); 2] {
        [("rope_append queries", &self.queries), ("rope_append cache", &self.cache)]
            .map(|(name, buffer)| (named(name, self.element), buffer))
    }
}

/// Queries, keys, values, cosines and sines (which need not be those of an angle), and the cache before.
fn append_inputs() -> [Vec<f32>; 5] {
    let kv_width = APPENDED.kv_heads * APPENDED.head_dim;
    [
        numbers(6, 7 * HEADS * APPENDED.head_dim),
        numbers(7, 7 * kv_width),
        numbers(8, 7 * kv_width),
        numbers(9, CONTEXT * APPENDED.head_dim),
        numbers(10, APPENDED.elements()),
    ]
}

/// Every head of `values` turned by `position`; NaN beyond the context.
fn turned(values: &[f32], turns: &[f32], position: u32) -> Vec<f64> {
    let width = APPENDED.head_dim as usize;
    let Some(turns) = turns.chunks(width).nth(position as usize) else { return vec![f64::NAN; values.len()] };
    let head = |head: &[f32]| -> Vec<f64> {
        let (first, second) = head.split_at(width / 2);
        let pairs = || first.iter().zip(second).zip(turns.as_chunks().0);
        let firsts = pairs().map(|((a, b), [cos, sin])| f64::from(a * cos - b * sin));
        firsts.chain(pairs().map(|((a, b), [cos, sin])| f64::from(b * cos + a * sin))).collect()
    };
    values.chunks(width).flat_map(head).collect()
}

/// Where a cache has a position's keys (side 0) or values (side 1).
fn slot(shape: CacheShape, page: u32, side: u32, position: u32) -> usize {
    let block = (page * shape.layers + LAYER) * 2 + side;
    ((block * shape.page_size + position % shape.page_size) * shape.kv_heads * shape.head_dim) as usize
}

pub(super) fn appends(element: Element) -> [Expected; 2] {
    let [queries, keys, values, turns, cache] = append_inputs();
    let mut cache: Vec<f64> = cache.into_iter().map(f64::from).collect();
    let width = (APPENDED.kv_heads * APPENDED.head_dim) as usize;
    let places = APPENDED_ROWS.into_iter().zip(APPENDED_POSITIONS);
    for ((row, position), (keys, values)) in places.zip(keys.chunks(width).zip(values.chunks(width))) {
        let page = APPENDED_PAGES[row as usize][(position / APPENDED.page_size) as usize];
        if position < CONTEXT && page < APPENDED.pages {
            let values = values.iter().map(|&value| f64::from(value)).collect();
            for (side, kept) in (0..).zip([turned(keys, &turns, position), values]) {
                let slot = &mut cache[slot(APPENDED, page, side, position)..][..width];
                slot.iter_mut().zip(kept).for_each(|(slot, kept)| *slot = rounded(element, kept));
            }
        }
    }
    let rows = queries.chunks((HEADS * APPENDED.head_dim) as usize).zip(APPENDED_POSITIONS);
    let queries = rows.flat_map(|(row, position)| turned(row, &turns, position)).collect();
    [
        Expected::exactly(named("rope_append queries", element), floats, queries),
        Expected::exactly(named("rope_append cache", element), reader(element), cache),
    ]
}

const ATTENDED: CacheShape = CacheShape { pages: 16, layers: 2, page_size: 8, kv_heads: 2, head_dim: 24 };
const ATTENDED_PAGES: [[u32; 9]; 4] = [
    [14, 3, 7, 0, 9, NO_PAGE, NO_PAGE, NO_PAGE, NO_PAGE],
    [1, 15, 2, 13, 4, 12, 5, 11, 6],
    [1, 15, 2, 13, 4, 12, 5, 11, 6],
    [8, NO_PAGE, NO_PAGE, NO_PAGE, NO_PAGE, NO_PAGE, NO_PAGE, NO_PAGE, NO_PAGE],
];
/// Of each row, first and end: a prefill, a chunk in two tiles, a decode, and one that misses a page.
const ATTENDED_POSITIONS: [(u32, u32); 4] = [(0, 36), (61, 70), (33, 34), (8, 9)];

/// Attention over pages.
#[derive(Debug)]
pub(super) struct Attended<B> {
    element: Element,
    queries: B,
    cache: B,
    rows: B,
    positions: B,
    pages: B,
    tiles: B,
    output: B,
}

impl<B: Buffer> Attended<B> {
    pub(super) fn upload<D: Device<Buffer = B>>(device: &mut D, element: Element) -> Result<Self, D::Error> {
        let (queries, cache) = attention_inputs();
        let (rows, positions): (Vec<u32>, Vec<u32>) = attended_places().into_iter().unzip();
        let lengths = ATTENDED_POSITIONS.map(|(first, end)| end - first);
        Ok(Self {
            element,
            queries: device.upload(&queries)?,
            cache: device.upload_bytes(element, &encoded(element, &cache))?,
            rows: device.upload(&rows)?,
            positions: device.upload(&positions)?,
            pages: device.upload(&ATTENDED_PAGES.concat())?,
            tiles: device.upload(&tiles(&lengths, attended_limit()))?,
            output: device.upload(&queries)?,
        })
    }

    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { queries, cache, rows, positions, pages, tiles, output, .. } = self;
        let places = Places { rows, positions, pages, batch_rows: 4, list_length: 9 };
        let (tile_limit, shape, heads, layer) = (attended_limit(), ATTENDED, HEADS, LAYER);
        device.run(Attention { output, queries, cache, places, tiles, tile_limit, shape, heads, layer })
    }

    pub(super) fn written(&self) -> (String, &B) {
        (named("attention", self.element), &self.output)
    }
}

fn attended_limit() -> u32 {
    tile_limit(HEADS, ATTENDED.kv_heads, ATTENDED.head_dim)
}

/// Row and position of each place of the batch.
fn attended_places() -> Vec<(u32, u32)> {
    let rows = (0..).zip(ATTENDED_POSITIONS);
    rows.flat_map(|(row, (first, end))| (first..end).map(move |position| (row, position))).collect()
}

/// Queries, so small that no key outweighs all others, and the cache.
fn attention_inputs() -> (Vec<f32>, Vec<f32>) {
    let positions: u32 = ATTENDED_POSITIONS.iter().map(|(first, end)| end - first).sum();
    let queries = numbers(11, positions * HEADS * ATTENDED.head_dim);
    (queries.into_iter().map(|query| query / 8.0).collect(), numbers(12, ATTENDED.elements()))
}

/// One head's attention; NaN if a page is missing.
fn attended(cache: &[f32], query: &[f32], (row, position, kv_head): (u32, u32, usize)) -> Vec<f64> {
    let width = query.len();
    let part = |side, key| {
        let page = ATTENDED_PAGES[row as usize][(key / ATTENDED.page_size) as usize];
        let start = || slot(ATTENDED, page, side, key) + kv_head * width;
        (page < ATTENDED.pages).then(|| &cache[start()..][..width])
    };
    let keys = (0..=position).map(|key| Some((part(0, key)?, part(1, key)?))).collect::<Option<Vec<_>>>();
    let Some(keys) = keys else { return vec![f64::NAN; width] };
    let weights: Vec<f64> =
        keys.iter().map(|(key, _)| (dot(query, key) / (width as f64).sqrt()).exp()).collect();
    let total: f64 = weights.iter().sum();
    let summed = |place: usize| -> f64 {
        keys.iter().zip(&weights).map(|((_, value), weight)| weight * f64::from(value[place])).sum()
    };
    (0..width).map(|place| summed(place) / total).collect()
}

pub(super) fn attention(element: Element) -> Expected {
    let (queries, cache) = attention_inputs();
    let group = (HEADS / ATTENDED.kv_heads) as usize;
    let mut heads = queries.chunks(ATTENDED.head_dim as usize);
    let mut values = Vec::new();
    for (row, position) in attended_places() {
        for (head, query) in heads.by_ref().take(HEADS as usize).enumerate() {
            values.extend(attended(&cache, query, (row, position, head / group)));
        }
    }
    Expected::nearly(named("attention", element), floats, values)
}

/// A page has more words than a block has threads.
const MOVED: CacheShape = CacheShape { pages: 4, layers: 1, page_size: 1, kv_heads: 1, head_dim: 516 };
/// Pages that are gathered, and those to which they are scattered; the last are beyond the cache.
const GATHERED: [u32; 3] = [3, 0, MOVED.pages];
const SCATTERED: [u32; 3] = [1, 2, NO_PAGE];

/// Pages in one piece, and in another cache.
#[derive(Debug)]
pub(super) struct Moved<B> {
    cache: B,
    gathered: B,
    staging: B,
    scattered: B,
    target: B,
}

impl<B: Buffer> Moved<B> {
    pub(super) fn upload<D: Device<Buffer = B>>(device: &mut D) -> Result<Self, D::Error> {
        let [cache, staging, target] = moved_inputs().map(|values| encoded(Element::Bf16, &values));
        Ok(Self {
            cache: device.upload_bytes(Element::Bf16, &cache)?,
            gathered: device.upload(&GATHERED)?,
            staging: device.upload_bytes(Element::Bf16, &staging)?,
            scattered: device.upload(&SCATTERED)?,
            target: device.upload_bytes(Element::Bf16, &target)?,
        })
    }

    pub(super) fn run<D: Device<Buffer = B>>(&mut self, device: &mut D) -> Result<(), D::Error> {
        let Self { cache, gathered, staging, scattered, target } = self;
        device.run(GatherPages { staging, cache, listed: gathered, shape: MOVED })?;
        device.run(ScatterPages { cache: target, staging, listed: scattered, shape: MOVED })
    }

    pub(super) fn written(&self) -> [(String, &B); 2] {
        [("gather_pages".to_owned(), &self.staging), ("scatter_pages".to_owned(), &self.target)]
    }
}

/// The cache, and what staging and the other cache hold before.
fn moved_inputs() -> [Vec<f32>; 3] {
    [(13, MOVED.elements()), (14, 3 * MOVED.page_elements()), (15, MOVED.elements())]
        .map(|(seed, count)| numbers(seed, count))
}

pub(super) fn moves() -> [Expected; 2] {
    let [cache, staging, mut target] = moved_inputs();
    let width = staging.len() / GATHERED.len();
    let page =
        |page: u32| cache.chunks(width).nth(page as usize).map_or(vec![f32::NAN; width], <[f32]>::to_vec);
    let staging = GATHERED.map(page);
    for (&page, content) in SCATTERED.iter().zip(&staging) {
        if let Some(own) = target.chunks_mut(width).nth(page as usize) {
            own.copy_from_slice(content);
        }
    }
    let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
    [
        Expected::exactly("gather_pages", bfloats, wide(&staging.concat())),
        Expected::exactly("scatter_pages", bfloats, wide(&target)),
    ]
}
