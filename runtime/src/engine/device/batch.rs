//! A batch's numbers on the device.

use std::iter::{repeat, repeat_n};

use lockstep_kernels::operations::attention::{tile_limit, tiles};
use lockstep_kernels::operations::paged::Places;
use lockstep_kernels::{Buffer, Device, Plain};

use super::small;
use crate::engine::backend::BackendError;
use crate::engine::batch::Batch;
use crate::engine::cache::CacheShape;
use crate::engine::draw::Draw;

/// Fills up the page lists of rows that have fewer pages than others; no cache has this page.
const NO_PAGE: u32 = u32::MAX;

/// The choice that a position goes on from which has a token of its own; no forward has this row.
const OWN_TOKEN: u32 = u32::MAX;

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
    /// How the rows' tokens are drawn; `None` if the likeliest of each is taken.
    pub(super) draws: Option<Draws<T>>,
}

/// How each row's token is drawn; at a temperature of 0 it is the likeliest.
#[derive(Debug)]
pub(super) struct Draws<T> {
    /// `[batch rows]`.
    pub(super) seeds: T,
    /// `[batch rows]`.
    pub(super) temperatures: T,
}

/// The same on the host.
pub(super) struct Numbers {
    /// Positions of each row.
    lengths: Vec<u32>,
    tokens: Vec<u32>,
    positions: Vec<u32>,
    pages: Vec<u32>,
    list_length: usize,
    /// Seeds and temperatures of the rows.
    draws: Option<(Vec<u64>, Vec<f32>)>,
}

impl Numbers {
    /// Of a batch of at least one row.
    pub(super) fn of(batch: &Batch<'_>) -> Self {
        let list_length = batch.rows.iter().map(|row| row.pages.len()).max().unwrap_or(0);
        let numbers = Self::with_lists(batch, list_length);
        if batch.draws().any(|draw| draw.is_some()) { numbers } else { Self { draws: None, ..numbers } }
    }

    /// Of rows of one position, none of which has a page; their tokens may be drawn.
    pub(super) fn blank(rows: usize, list_length: usize) -> Self {
        let zeros = vec![0; rows];
        let pages = vec![NO_PAGE; rows * list_length];
        let draws = Some((vec![0; rows], vec![0.0; rows]));
        Self { lengths: vec![1; rows], tokens: zeros.clone(), positions: zeros, pages, list_length, draws }
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
        let draw = |draw: Option<Draw>| draw.map_or((0, 0.0), |draw| (draw.seed, draw.temperature));
        let draws = Some(batch.draws().map(draw).unzip());
        Self { lengths, tokens, positions, pages, list_length, draws }
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
        device: &mut impl Device<Buffer = T>,
        numbers: &Numbers,
        (heads, shape): (usize, CacheShape),
    ) -> Result<Self, BackendError> {
        let heads = small(heads);
        let tile_limit = tile_limit(heads, small(shape.kv_heads), small(shape.head_dim));
        let draws = numbers.draws.as_ref().map(|(seeds, temperatures)| {
            Ok(Draws { seeds: upload(device, seeds)?, temperatures: upload(device, temperatures)? })
        });
        Ok(Self {
            draws: draws.transpose()?,
            tokens: upload(device, &numbers.tokens)?,
            rows: upload(device, &numbers.rows())?,
            positions: upload(device, &numbers.positions)?,
            pages: upload(device, &numbers.pages)?,
            batch_rows: small(numbers.lengths.len()),
            list_length: small(numbers.list_length),
            tiles: upload(device, &tiles(&numbers.lengths, tile_limit))?,
            tile_limit,
            ends: upload(device, &numbers.ends())?,
            heads,
        })
    }

    /// Replaces the numbers of a blank batch by those of no more rows, of one position each. The rest is blank again.
    pub(super) fn refill(
        &mut self,
        device: &mut impl Device<Buffer = T>,
        batch: &Batch<'_>,
    ) -> Result<(), BackendError> {
        let (rows, list_length) = (self.batch_rows as usize, self.list_length as usize);
        let mut numbers = Numbers::with_lists(batch, list_length);
        numbers.tokens.resize(rows, 0);
        numbers.positions.resize(rows, 0);
        numbers.pages.resize(rows * list_length, NO_PAGE);
        overwrite(device, &mut self.tokens, &numbers.tokens)?;
        overwrite(device, &mut self.positions, &numbers.positions)?;
        overwrite(device, &mut self.pages, &numbers.pages)?;
        if let Some((Draws { seeds, temperatures }, (new_seeds, heats))) =
            self.draws.as_mut().zip(numbers.draws.as_mut())
        {
            new_seeds.resize(rows, 0);
            heats.resize(rows, 0.0);
            overwrite(device, seeds, new_seeds)?;
            overwrite(device, temperatures, heats)?;
        }
        Ok(())
    }

    /// As the kernel takes it what each position goes on from: its number is beyond every choice where it has a token of its own.
    pub(super) fn follows(&self, follows: &[Option<usize>]) -> Vec<u32>
    where
        T: Buffer,
    {
        let number = |follows: &Option<usize>| follows.map_or(OWN_TOKEN, small);
        let filled = follows.iter().map(number).chain(repeat(OWN_TOKEN));
        filled.zip(0..self.tokens.len()).map(|(number, _)| number).collect()
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

fn upload<D: Device>(device: &mut D, numbers: &[impl Plain]) -> Result<D::Buffer, BackendError> {
    device.upload(numbers).map_err(BackendError::new)
}

fn overwrite<D: Device>(
    device: &mut D,
    buffer: &mut D::Buffer,
    numbers: &[impl Plain],
) -> Result<(), BackendError> {
    device.overwrite(buffer, numbers).map_err(BackendError::new)
}
