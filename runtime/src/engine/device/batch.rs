//! A batch's numbers on the device.

use lockstep_kernels::operations::attention::tiles;
use lockstep_kernels::operations::paged::Places;

use super::small;
use crate::engine::backend::BackendError;
use crate::engine::batch::Batch;

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

impl<T> DeviceBatch<T> {
    /// Brings the numbers of a batch of at least one row to the device.
    pub(super) fn upload(
        batch: &Batch<'_>,
        tile_limit: u32,
        mut upload: impl FnMut(&[u32]) -> Result<T, BackendError>,
    ) -> Result<Self, BackendError> {
        let places = &batch.places;
        let lengths: Vec<u32> = batch.rows.iter().map(|row| small(row.tokens.len())).collect();
        let list_length = batch.rows.iter().map(|row| row.pages.len()).max().unwrap_or(0);
        Ok(Self {
            tokens: upload(&places.iter().map(|place| small(place.token)).collect::<Vec<_>>())?,
            rows: upload(&places.iter().map(|place| small(place.row)).collect::<Vec<_>>())?,
            positions: upload(&places.iter().map(|place| small(place.position)).collect::<Vec<_>>())?,
            pages: upload(&page_lists(batch, list_length))?,
            batch_rows: small(batch.rows.len()),
            list_length: small(list_length),
            tiles: upload(&tiles(&lengths, tile_limit))?,
            tile_limit,
            ends: upload(&ends(batch))?,
            heads: small(batch.heads),
        })
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

/// The rows' page lists, each filled up to `length`.
fn page_lists(batch: &Batch<'_>, length: usize) -> Vec<u32> {
    let list = |pages: &[u32]| pages.iter().copied().chain(std::iter::repeat(NO_PAGE)).take(length).collect();
    batch.rows.iter().flat_map(|row| -> Vec<u32> { list(row.pages) }).collect()
}

/// The batch's positions at which its rows end.
fn ends(batch: &Batch<'_>) -> Vec<u32> {
    let last = batch.places.iter().enumerate().filter(|(_, place)| place.last);
    last.map(|(position, _)| small(position)).collect()
}
