//! A batch's numbers on the device.

use std::iter::repeat_n;

use lockstep_kernels::operations::attention::{tile_limit, tiles};
use lockstep_kernels::operations::paged::Places;

use super::small;
use crate::engine::backend::BackendError;
use crate::engine::batch::Batch;
use crate::engine::cache::CacheShape;

/// Fills up the page lists of rows that have fewer pages than others; no cache has this page.
const NO_PAGE: u32 = u32::MAX;

/// The positions of a batch, row after row, in buffers of `u32`.
#[derive(Debug)]
pub struct DeviceBatch<T> {
    /// `[positions]`.
    pub(super) tokens: T,
    /// `[positions]`: the row of each.
    rows: T,
    /// `[positions]`: its position in the row.
    positions: T,
    /// `[batch rows, list length]`.
    pages: T,
    batch_rows: u32,
    list_length: u32,
    /// `[tiles + 1]`: where attention's tiles begin.
    pub(super) tiles: T,
    /// Positions of the largest.
    pub(super) tile_limit: u32,
    /// `[batch rows]`: the last position of each row.
    pub(super) ends: T,
    /// This rank's query heads.
    pub(super) heads: u32,
}

/// The same on the host.
pub(super) struct Numbers {
    /// Positions of each row.
    lengths: Vec<u32>,
    tokens: Vec<u32>,
    positions: Vec<u32>,
    pages: Vec<u32>,
    list_length: usize,
}

impl Numbers {
    /// Of a batch of at least one row.
    pub(super) fn of(batch: &Batch<'_>) -> Self {
        Self::with_lists(batch, batch.rows.iter().map(|row| row.pages.len()).max().unwrap_or(0))
    }

    /// Of rows of one position, none of which has a page.
    pub(super) fn blank(rows: usize, list_length: usize) -> Self {
        let zeros = vec![0; rows];
        let pages = vec![NO_PAGE; rows * list_length];
        Self { lengths: vec![1; rows], tokens: zeros.clone(), positions: zeros, pages, list_length }
    }

    /// With page lists of this length; what pages a list has beyond it, no position of the model's context needs.
    fn with_lists(batch: &Batch<'_>, list_length: usize) -> Self {
        let lengths = batch.rows.iter().map(|row| small(row.tokens.len())).collect();
        let (tokens, positions) =
            batch.places.iter().map(|place| (small(place.token), small(place.position))).unzip();
        let list = |pages: &[u32]| {
            let filled = pages.iter().copied().chain(repeat_n(NO_PAGE, list_length));
            filled.take(list_length).collect::<Vec<_>>()
        };
        let pages = batch.rows.iter().flat_map(|row| list(row.pages)).collect();
        Self { lengths, tokens, positions, pages, list_length }
    }

    /// The row of each position.
    fn rows(&self) -> Vec<u32> {
        (0..).zip(&self.lengths).flat_map(|(row, &length)| repeat_n(row, length as usize)).collect()
    }

    /// The batch's positions at which its rows end.
    fn ends(&self) -> Vec<u32> {
        let end = |next: &mut u32, length: &u32| {
            *next += length;
            Some(*next - 1)
        };
        self.lengths.iter().scan(0, end).collect()
    }
}

impl<T> DeviceBatch<T> {
    /// Brings the numbers of a batch to the device.
    pub(super) fn upload(
        numbers: &Numbers,
        (heads, shape): (usize, CacheShape),
        mut upload: impl FnMut(&[u32]) -> Result<T, BackendError>,
    ) -> Result<Self, BackendError> {
        let heads = small(heads);
        let tile_limit = tile_limit(heads, small(shape.kv_heads), small(shape.head_dim));
        Ok(Self {
            tokens: upload(&numbers.tokens)?,
            rows: upload(&numbers.rows())?,
            positions: upload(&numbers.positions)?,
            pages: upload(&numbers.pages)?,
            batch_rows: small(numbers.lengths.len()),
            list_length: small(numbers.list_length),
            tiles: upload(&tiles(&numbers.lengths, tile_limit))?,
            tile_limit,
            ends: upload(&numbers.ends())?,
            heads,
        })
    }

    /// Replaces the numbers of a blank batch by those of no more rows, of one position each. The rest is blank again.
    pub(super) fn refill(
        &mut self,
        batch: &Batch<'_>,
        mut overwrite: impl FnMut(&mut T, &[u32]) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let (rows, list_length) = (self.batch_rows as usize, self.list_length as usize);
        let mut numbers = Numbers::with_lists(batch, list_length);
        numbers.tokens.resize(rows, 0);
        numbers.positions.resize(rows, 0);
        numbers.pages.resize(rows * list_length, NO_PAGE);
        overwrite(&mut self.tokens, &numbers.tokens)?;
        overwrite(&mut self.positions, &numbers.positions)?;
        overwrite(&mut self.pages, &numbers.pages)
    }

    pub(super) fn places(&self) -> Places<'_, T> {
        Places {
            rows: &self.rows,
            positions: &self.positions,
            pages: &self.pages,
            batch_rows: self.batch_rows,
            list_length: self.list_length,
        }
    }
}
