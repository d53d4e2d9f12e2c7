//! Attention over the paged cache: against the softmax in double precision, and bit for bit against itself in other
//! company, other tiles, and by decode in place of prefill.

use lockstep_kernels::cpu::{Cpu, CpuError};
use lockstep_kernels::operations::attention::{Attention, tile_limit, tiles};
use lockstep_kernels::operations::paged::{CacheShape, Places};
use lockstep_kernels::{Device, Element};

use crate::common::{
    CACHES, ORDERS, SEEDS, bits, cpu, download, floats, in_every_order, junk, pairs, upload,
};
use crate::numbers::{Random, assert_close};

const TOLERANCE: f64 = 4e-6;

/// Sizes of a cache and the heads over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) shape: CacheShape,
    pub(crate) heads: u32,
}

/// A row of the batch: its page list, and its positions `start..end` that are in the batch.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) pages: Vec<u32>,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Pages that hold a span of keys and more, a part of one, or a single position; groups of 1 to 4 heads; heads of two
/// elements and of as many as a block has threads (128).
pub(crate) const MODELS: [Model; 6] = [
    model(8, 2, 2, 2),
    model(3, 4, 2, 16),
    model(16, 8, 2, 40),
    model(1, 2, 1, 64),
    model(4, 3, 1, 6),
    model(64, 2, 1, 128),
];

const fn model(page_size: u32, heads: u32, kv_heads: u32, head_dim: u32) -> Model {
    Model { shape: CacheShape { pages: 40, layers: 2, page_size, kv_heads, head_dim }, heads }
}

impl Model {
    fn elements(self) -> usize {
        usize::try_from(self.shape.elements()).expect("small")
    }

    fn query_width(self) -> usize {
        (self.heads * self.shape.head_dim) as usize
    }

    /// The query of a position of a row, a function of the two alone.
    fn query(self, pages: &[u32], position: u32) -> Vec<f32> {
        Random(u64::from(pages[0]) << 32 | u64::from(position)).floats(self.query_width())
    }

    /// Where the cache has a head's keys (side 0) or values (side 1) of layer 1.
    fn slot(self, pages: &[u32], side: usize, position: u32, kv_head: u32) -> usize {
        let shape = self.shape;
        let page = pages[(position / shape.page_size) as usize] as usize;
        let block = (page * shape.layers as usize + 1) * 2 + side;
        let place = block * shape.page_size as usize + (position % shape.page_size) as usize;
        (place * shape.kv_heads as usize + kv_head as usize) * shape.head_dim as usize
    }

    /// A row of `end` positions, of which the batch has those from `start` on, in scattered pages.
    pub(crate) fn row(self, number: u32, start: u32, end: u32) -> Row {
        let pages = (0..end.div_ceil(self.shape.page_size)).map(|page| (39 + number - page * 7 % 40) % 40);
        Row { pages: pages.collect(), start, end }
    }

    /// A cache whose unwritten positions are NaN, as a fresh one's; those of `rows` are written.
    pub(crate) fn cache(self, element: Element, rows: &[Row], seed: u64) -> Vec<f32> {
        let content = Random(seed).exact(self.elements(), element);
        let mut cache = vec![f32::NAN; content.len()];
        for row in rows {
            for (position, kv_head, side) in self.slots(row.end) {
                let slot = self.slot(&row.pages, side, position, kv_head);
                let width = self.shape.head_dim as usize;
                cache[slot..][..width].copy_from_slice(&content[slot..][..width]);
            }
        }
        cache
    }

    fn slots(self, end: u32) -> impl Iterator<Item = (u32, u32, usize)> {
        let heads = move |position| (0..self.shape.kv_heads).map(move |head| (position, head));
        (0..end).flat_map(heads).flat_map(|(position, head)| [(position, head, 0), (position, head, 1)])
    }

    /// One position's attention, in double precision.
    fn expected(self, cache: &[f32], pages: &[u32], position: u32) -> Vec<f64> {
        let width = self.shape.head_dim as usize;
        let query = self.query(pages, position);
        let head = |head: u32| {
            let kv_head = head / (self.heads / self.shape.kv_heads);
            let part = |side, key| cache[self.slot(pages, side, key, kv_head)..][..width].iter();
            let query = &query[head as usize * width..][..width];
            let score = |key| -> f64 {
                let products = query.iter().zip(part(0, key)).map(|(&q, &k)| f64::from(q) * f64::from(k));
                products.sum::<f64>() / (width as f64).sqrt()
            };
            let weights: Vec<f64> = (0..=position).map(|key| score(key).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut output = vec![0.0; width];
            for (key, weight) in (0..).zip(&weights) {
                output
                    .iter_mut()
                    .zip(part(1, key))
                    .for_each(|(sum, &v)| *sum += weight / total * f64::from(v));
            }
            output
        };
        (0..self.heads).flat_map(head).collect()
    }

    /// Runs the batch of `rows`, cut into tiles of `limit`.
    pub(crate) fn attend(
        self,
        cpu: &mut Cpu,
        (element, cache): (Element, &[f32]),
        rows: &[Row],
        limit: u32,
    ) -> Result<Vec<f32>, CpuError> {
        let lengths: Vec<u32> = rows.iter().map(|row| row.end - row.start).collect();
        self.attend_tiles(cpu, (element, cache), rows, (&tiles(&lengths, limit), limit))
    }

    fn attend_tiles(
        self,
        cpu: &mut Cpu,
        (element, cache): (Element, &[f32]),
        rows: &[Row],
        (tiles, tile_limit): (&[u32], u32),
    ) -> Result<Vec<f32>, CpuError> {
        let list_length = rows.iter().map(|row| row.pages.len()).max().expect("a row");
        let places: Vec<(u32, u32)> = (0..)
            .zip(rows)
            .flat_map(|(number, row)| (row.start..row.end).map(move |at| (number, at)))
            .collect();
        let query = |&(row, at): &(u32, u32)| self.query(&rows[row as usize].pages, at);
        let queries = upload(cpu, &places.iter().flat_map(query).collect::<Vec<_>>());
        let filled = |row: &Row| -> Vec<u32> {
            row.pages.iter().copied().chain(std::iter::repeat(99)).take(list_length).collect()
        };
        let pages = upload(cpu, &rows.iter().flat_map(filled).collect::<Vec<_>>());
        let tiles = upload(cpu, tiles);
        let mut output = junk(cpu, places.len() * self.query_width());
        let (row_numbers, positions): (Vec<u32>, Vec<u32>) = places.into_iter().unzip();
        let (row_numbers, positions) = (upload(cpu, &row_numbers), upload(cpu, &positions));
        let cache = floats(cpu, element, cache);
        let batch_rows = u32::try_from(rows.len()).expect("few");
        let list_length = u32::try_from(list_length).expect("few");
        let places =
            Places { rows: &row_numbers, positions: &positions, pages: &pages, batch_rows, list_length };
        cpu.run(Attention {
            output: &mut output,
            queries: &queries,
            cache: &cache,
            places,
            tiles: &tiles,
            tile_limit,
            shape: self.shape,
            heads: self.heads,
            layer: 1,
        })?;
        Ok(download(cpu, &output))
    }

    fn limit(self) -> u32 {
        tile_limit(self.heads, self.shape.kv_heads, self.shape.head_dim)
    }
}

/// The positions of most rows here: 20 pages, or 70.
fn longest(model: Model) -> u32 {
    (model.shape.page_size * 20).min(70)
}

/// A whole prompt, a chunk of another that starts within a page, and a decode; other pages and queries for each seed.
fn mixed_rows(model: Model, seed: u32) -> Vec<Row> {
    let longest = longest(model);
    vec![
        model.row(seed, 0, longest / 2),
        model.row(seed + 2, longest - 8, longest),
        Row { pages: model.row(seed + 2, 0, longest).pages, start: 2, end: 3 },
    ]
}

/// Decodes at the edges of spans of 32 keys, and a prompt of one position.
fn edge_rows(model: Model, seed: u32) -> Vec<Row> {
    let ends = [1, 31, 32, 33, 64, 65].into_iter().filter(|end| *end <= longest(model));
    (seed..).zip(ends).map(|(number, end)| model.row(number, end - 1, end)).collect()
}

#[test]
fn attention_is_the_softmax_over_the_listed_pages_in_any_thread_order() {
    let mut cpu = cpu();
    for ((model, element), seed) in pairs(pairs(MODELS, CACHES), SEEDS) {
        for rows in [mixed_rows, edge_rows].map(|rows| rows(model, u32::try_from(seed).expect("small"))) {
            let cache = model.cache(element, &rows, seed);
            let case = format!("{model:?}, {element}, seed {seed}, {rows:?}");
            let found = in_every_order(&mut cpu, &case, |cpu| {
                model.attend(cpu, (element, &cache), &rows, model.limit()).expect("a launch")
            });
            let places =
                rows.iter().flat_map(|row| (row.start..row.end).map(move |position| (&row.pages, position)));
            let expected: Vec<f64> =
                places.flat_map(|(pages, position)| model.expected(&cache, pages, position)).collect();
            assert_close(&found, &expected, TOLERANCE, &case);
        }
    }
}

#[test]
fn attention_gives_the_same_bits_in_any_tiles_company_and_thread_order() {
    let mut cpu = cpu();
    let models = [(MODELS[0], Element::F32), (MODELS[1], Element::F32), (MODELS[4], Element::Bf16)];
    for ((model, element), seed) in models.into_iter().zip(SEEDS) {
        let rows = mixed_rows(model, u32::try_from(seed).expect("small"));
        let cache = model.cache(element, &rows, seed);
        let case = format!("{model:?}, {element}, seed {seed}");
        let mut run = |order, rows: &[Row], limit| {
            cpu.order_threads(order);
            bits(&model.attend(&mut cpu, (element, &cache), rows, limit).expect("a launch"))
        };
        let together = run(0, &rows, 8);
        for (order, limit) in pairs(ORDERS, [1, 3, 5, 8]) {
            assert!(run(order, &rows, limit) == together, "{case}: tiles of {limit}, order {order}");
        }
        for order in ORDERS {
            let alone = rows.iter().flat_map(|row| run(order, std::slice::from_ref(row), 8));
            assert!(alone.eq(together.iter().copied()), "{case}: rows alone, order {order}");
        }
    }
}

#[test]
fn attention_of_a_prefill_has_the_bits_of_its_chunks_and_of_decode() {
    let mut cpu = cpu();
    let models = [(MODELS[0], Element::F32), (MODELS[2], Element::Bf16), (MODELS[4], Element::F32)];
    for ((model, element), seed) in models.into_iter().zip(SEEDS) {
        let row = model.row(u32::try_from(seed).expect("small"), 0, 70);
        let cache = model.cache(element, std::slice::from_ref(&row), seed);
        let case = format!("{model:?}, {element}, seed {seed}");
        let mut run = |start, end| {
            let part = Row { start, end, ..row.clone() };
            bits(&model.attend(&mut cpu, (element, &cache), &[part], 8).expect("a launch"))
        };
        let whole = run(0, 70);
        let chunks = [(0, 3), (3, 32), (32, 65), (65, 70)].map(|(start, end)| run(start, end)).concat();
        assert!(chunks == whole, "{case}: chunks");
        for position in [0, 1, 30, 31, 32, 33, 63, 64, 69] {
            let width = model.query_width();
            let decoded = run(position, position + 1);
            let expected = &whole[position as usize * width..][..width];
            assert!(decoded == *expected, "{case}: decode of position {position}");
        }
    }
}

#[test]
fn attention_that_misses_a_page_is_nan() {
    let mut cpu = cpu();
    let model = MODELS[0];
    for (element, seed) in pairs(CACHES, SEEDS) {
        let row = model.row(u32::try_from(seed).expect("small"), 30, 40);
        let cache = model.cache(element, std::slice::from_ref(&row), seed);
        let beyond =
            Row { pages: vec![row.pages[0], 40, row.pages[2], row.pages[3], row.pages[4]], ..row.clone() };
        let short = Row { pages: row.pages[..3].to_vec(), ..row.clone() };
        let far = Row { start: u32::MAX - 2, end: u32::MAX - 1, ..row };
        for row in [beyond, short, far] {
            let case = format!("{element}, {row:?}");
            let found = in_every_order(&mut cpu, &case, |cpu| {
                model.attend(cpu, (element, &cache), std::slice::from_ref(&row), 4).expect("a launch")
            });
            assert!(found.iter().all(|value| value.is_nan()), "{case}: {found:?}");
        }
    }
}

#[test]
fn attention_leaves_out_tiles_that_do_not_fit() {
    let mut cpu = cpu();
    let model = MODELS[1];
    let row = model.row(0, 0, 3);
    let cache = model.cache(Element::F32, std::slice::from_ref(&row), 5);
    // In turn: larger than the limit, then one position, then backwards, then beyond the batch.
    let tiles = [0, 2, 3, 1, 4];
    let found = in_every_order(&mut cpu, "tiles that do not fit", |cpu| {
        let rows = std::slice::from_ref(&row);
        model.attend_tiles(cpu, (Element::F32, &cache), rows, (&tiles, 1)).expect("a launch")
    });
    let (left_out, last) = found.split_at(2 * model.query_width());
    assert!(left_out.iter().all(|value| *value == f32::MAX), "{left_out:?}");
    assert!(last.iter().all(|value| value.abs() < 1.0), "{last:?}");
}
