//! The paged key/value cache: its shape, appending a batch's positions to it, and moving its pages.
//!
//! The cache is `[pages, layers, 2 (keys, values), page_size, kv_heads, head_dim]`, as the CPU engine's: a page is one
//! piece. Position `p` of a row is in entry `p / page_size` of the row's page list, at `p % page_size`.

use super::Operation;
use crate::call::{Buffer, Call, CallError, count, product};
use crate::element::Element;
use crate::kernel::Kernel;
use crate::launch::{Launch, whole_warps};

/// Elements of a position's queries that 32-bit indices reach.
const MAX_WIDTH: u64 = i32::MAX as u64;
const APPEND_THREADS: u32 = 128;
const COPY_THREADS: u32 = 256;
/// Words that a thread copies, before a page gets another block.
const COPY_WORDS: u32 = 8;
/// Blocks that a page gets at most.
const COPY_BLOCKS: u32 = 64;

/// Shape of a rank's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Number of pages.
    pub pages: u32,
    /// Layers of the model.
    pub layers: u32,
    /// Positions of a page.
    pub page_size: u32,
    /// This rank's key and value heads.
    pub kv_heads: u32,
    /// Elements of a head; even.
    pub head_dim: u32,
}

impl CacheShape {
    /// Elements of the cache; `u64::MAX` if it cannot exist.
    #[must_use]
    pub fn elements(&self) -> u64 {
        product(&self.fields()).saturating_mul(2)
    }

    /// Elements of a page, likewise.
    #[must_use]
    pub fn page_elements(&self) -> u64 {
        product(&self.fields()[1..]).saturating_mul(2)
    }

    /// As `CacheShape` of cache.cuh.
    pub(super) fn fields(&self) -> [u32; 5] {
        [self.pages, self.layers, self.page_size, self.kv_heads, self.head_dim]
    }

    /// Refuses what the kernels' arithmetic does not cover.
    pub(super) fn check(&self, heads: u32, layer: u32) -> Result<(), CallError> {
        let reason = if !self.head_dim.is_multiple_of(2) {
            "head_dim must be even: its halves turn together"
        } else if self.kv_heads == 0 || !heads.is_multiple_of(self.kv_heads) {
            "heads must be a multiple of kv_heads"
        } else if product(&[heads, self.head_dim]) > MAX_WIDTH {
            "heads * head_dim must be below 2^31"
        } else if layer >= self.layers {
            "layer must be below the cache's layers"
        } else {
            return Ok(());
        };
        Err(CallError::Value { reason })
    }

    /// Words of 8 bytes of a page; 0, which no kernel takes, if they do not fit 32 bits.
    fn page_words(&self, element: Element) -> u32 {
        let bytes = self.page_elements().saturating_mul(element.bytes());
        u32::try_from(bytes / Element::U64.bytes()).unwrap_or(0)
    }
}

/// The positions of a batch, in any number of rows.
#[derive(Debug)]
pub struct Places<'a, B> {
    /// `[positions]`: the row of each position.
    pub rows: &'a B,
    /// `[positions]`: its position in the row.
    pub positions: &'a B,
    /// `[batch rows, list_length]`: the rows' page lists, filled up with any number.
    pub pages: &'a B,
    /// Rows of the batch.
    pub batch_rows: u32,
    /// Entries of each page list.
    pub list_length: u32,
}

impl<B> Copy for Places<'_, B> {}

impl<B> Clone for Places<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Buffer> Places<'_, B> {
    /// Number of positions.
    pub(super) fn count(&self) -> u32 {
        count(self.positions)
    }

    pub(super) fn page_entries(&self) -> u64 {
        product(&[self.batch_rows, self.list_length])
    }
}

/// Turns queries and keys by their positions; writes keys and values to the cache.
///
/// A position beyond the context, or without a page, writes nothing; the former makes its queries NaN.
#[derive(Debug)]
pub struct RopeAppend<'a, B> {
    /// `[positions, heads, head_dim]`, turned in place.
    pub queries: &'a mut B,
    /// The cache.
    pub cache: &'a mut B,
    /// `[positions, kv_heads, head_dim]`, not yet turned.
    pub keys: &'a B,
    /// `[positions, kv_heads, head_dim]`.
    pub values: &'a B,
    /// `[context, head_dim / 2, 2]`: cosine and sine of each position and pair.
    pub turns: &'a B,
    /// The batch.
    pub places: Places<'a, B>,
    /// The cache's shape.
    pub shape: CacheShape,
    /// This rank's query heads.
    pub heads: u32,
    /// The layer whose keys and values these are.
    pub layer: u32,
    /// Positions of the model's context.
    pub context: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for RopeAppend<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        let Self { shape, places, heads, .. } = self;
        shape.check(heads, self.layer)?;
        let count = places.count();
        let kv_elements = product(&[count, shape.kv_heads, shape.head_dim]);
        let threads = whole_warps(heads.saturating_mul(shape.head_dim), APPEND_THREADS);
        Call::of(Kernel::RopeAppend, Some(&*self.cache))?
            .write(self.queries, product(&[count, heads, shape.head_dim]))
            .write(self.cache, shape.elements())
            .read(self.keys, kv_elements)
            .read(self.values, kv_elements)
            .read(self.turns, product(&[self.context, shape.head_dim]))
            .read(places.rows, count.into())
            .read(places.positions, count.into())
            .read(places.pages, places.page_entries())
            .sizes(shape.fields())
            .sizes([places.batch_rows, places.list_length])
            .sizes([heads])
            .number(self.layer)
            .sizes([self.context])
            .launch(Launch::new([count.into(), 1], [threads, 1], 0))
    }
}

/// `staging[i] = cache[listed[i]]`: pages into one piece. All ones, a NaN, for a page beyond the cache.
#[derive(Debug)]
pub struct GatherPages<'a, B> {
    /// `[listed, page elements]`, of the cache's type.
    pub staging: &'a mut B,
    /// The cache.
    pub cache: &'a B,
    /// `[listed]`: page numbers.
    pub listed: &'a B,
    /// The cache's shape.
    pub shape: CacheShape,
}

impl<'a, B: Buffer> Operation<'a, B> for GatherPages<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        self.shape.check(self.shape.kv_heads, 0)?;
        let (pages, words) = (self.shape.pages, self.shape.page_words(self.cache.element()));
        Call::of(Kernel::GatherPages, None::<&B>)?
            .write(self.staging, self.listed.len().saturating_mul(words.into()))
            .read(self.cache, product(&[pages, words]))
            .read(self.listed, self.listed.len())
            .sizes([pages, words])
            .launch(a_row_of_blocks_a_page(self.listed.len(), words))
    }
}

/// `cache[listed[i]] = staging[i]`: one piece into pages. A page beyond the cache is left out.
#[derive(Debug)]
pub struct ScatterPages<'a, B> {
    /// The cache.
    pub cache: &'a mut B,
    /// `[listed, page elements]`, of the cache's type.
    pub staging: &'a B,
    /// `[listed]`: page numbers, each once.
    pub listed: &'a B,
    /// The cache's shape.
    pub shape: CacheShape,
}

impl<'a, B: Buffer> Operation<'a, B> for ScatterPages<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        self.shape.check(self.shape.kv_heads, 0)?;
        let (pages, words) = (self.shape.pages, self.shape.page_words(self.cache.element()));
        Call::of(Kernel::ScatterPages, None::<&B>)?
            .write(self.cache, product(&[pages, words]))
            .read(self.staging, self.listed.len().saturating_mul(words.into()))
            .read(self.listed, self.listed.len())
            .sizes([pages, words])
            .launch(a_row_of_blocks_a_page(self.listed.len(), words))
    }
}

fn a_row_of_blocks_a_page(listed: u64, words: u32) -> Result<Launch, crate::launch::LaunchError> {
    let blocks = words.div_ceil(COPY_THREADS * COPY_WORDS).min(COPY_BLOCKS);
    Launch::new([listed, blocks.into()], [COPY_THREADS, 1], 0)
}
