//! Causal attention over the paged cache: decode, prefill and chunks of it in one launch.
//!
//! The batch's positions are cut into tiles, each of one row: single positions in decode, several in prefill, so that a
//! key read once serves them all. How they are cut changes no bit of a result.

use super::Operation;
use super::paged::{CacheShape, Places};
use crate::call::{Buffer, Call, CallError, product};
use crate::kernel::Kernel;
use crate::launch::{Launch, MAX_SHARED_BYTES, WARP};

const WARPS: u32 = 4;
/// Keys of a step, as in attention.cu.
const SPAN: u64 = WARP as u64;
/// State of each vector, likewise.
const VECTOR_STATE: u64 = 4;
const ELEMENT_BYTES: u64 = 4;
/// Positions of the largest tile; beyond this, sharing the keys gains little.
const MAX_TILE: u32 = 8;

/// `output = softmax(queries · keysᵀ / sqrt(head_dim)) · values`, of each position over its row's positions up to it.
#[derive(Debug)]
pub struct Attention<'a, B> {
    /// `[positions, heads, head_dim]`.
    pub output: &'a mut B,
    /// `[positions, heads, head_dim]`, turned.
    pub queries: &'a B,
    /// The cache, with the batch's own positions appended.
    pub cache: &'a B,
    /// The batch.
    pub places: Places<'a, B>,
    /// `[tiles + 1]`, from 0 to the number of positions: where each tile begins, and where the last ends.
    pub tiles: &'a B,
    /// Positions that a tile has at most; [`tile_limit`] gives the best.
    pub tile_limit: u32,
    /// The cache's shape.
    pub shape: CacheShape,
    /// This rank's query heads.
    pub heads: u32,
    /// The layer.
    pub layer: u32,
}

impl<'a, B: Buffer> Operation<'a, B> for Attention<'a, B> {
    fn call(self) -> Result<Call<'a, B>, CallError> {
        let Self { shape, places, heads, .. } = self;
        shape.check(heads, self.layer)?;
        let (count, group) = (places.count(), heads / shape.kv_heads);
        let elements = product(&[count, heads, shape.head_dim]);
        let blocks = [self.tiles.len().saturating_sub(1), shape.kv_heads.into()];
        let shared = shared_bytes(self.tile_limit, group, shape.head_dim);
        Call::of(Kernel::Attention, Some(self.cache))?
            .write(self.output, elements)
            .read(self.queries, elements)
            .read(self.cache, shape.elements())
            .read(places.pages, places.page_entries())
            .read(places.rows, count.into())
            .read(places.positions, count.into())
            .read(self.tiles, self.tiles.len())
            .sizes(shape.fields())
            .sizes([places.batch_rows, places.list_length])
            .sizes([count, self.tile_limit, group])
            .number(self.layer)
            .launch(Launch::new(blocks, [WARPS * WARP, 1], shared))
    }
}

/// The positions of the largest tile that a block's shared memory holds; 1 even if it holds none.
#[must_use]
pub fn tile_limit(heads: u32, kv_heads: u32, head_dim: u32) -> u32 {
    let group = heads / kv_heads.max(1);
    let fits = |tile: &u32| shared_bytes(*tile, group, head_dim) <= MAX_SHARED_BYTES;
    (1..=MAX_TILE).rev().find(fits).unwrap_or(1)
}

/// Cuts rows of the given lengths into tiles of `limit` positions, at least 1; what [`Attention::tiles`] takes.
#[must_use]
pub fn tiles(row_lengths: &[u32], limit: u32) -> Vec<u32> {
    let limit = limit.max(1);
    let mut ends = vec![0];
    let mut start = 0;
    for &length in row_lengths {
        ends.extend((1..=length.div_ceil(limit)).map(|tile| start + (tile * limit).min(length)));
        start += length;
    }
    ends
}

/// Dynamic shared memory of a block, as attention.cu divides it.
fn shared_bytes(tile: u32, group: u32, head_dim: u32) -> u64 {
    let (vectors, head_dim) = (product(&[tile, group]), u64::from(head_dim));
    let span = SPAN * (2 * head_dim + 1);
    let vector = 2 * head_dim + SPAN + VECTOR_STATE;
    vectors.saturating_mul(vector).saturating_add(span).saturating_mul(ELEMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::{tile_limit, tiles};

    #[test]
    fn tiles_never_span_rows() {
        assert_eq!(tiles(&[1, 1, 1], 8), [0, 1, 2, 3]);
        assert_eq!(tiles(&[10, 1, 8], 4), [0, 4, 8, 10, 11, 15, 19]);
        assert_eq!(tiles(&[], 4), [0]);
    }

    #[test]
    fn tile_limit_shrinks_with_the_vectors() {
        assert_eq!(tile_limit(8, 4, 16), 8);
        assert_eq!(tile_limit(32, 8, 128), 3);
        assert_eq!(tile_limit(64, 1, 128), 1);
    }
}
