//! The CPU as a backend: plain Rust, everything in `f32`.
//!
//! Reading order: here, [`threads`], [`arithmetic`], [`attention`], [`pages`].

mod arithmetic;
mod attention;
mod pages;
mod threads;

use std::convert::Infallible;

use lockstep_kernels::Plain;
use lockstep_kernels::operations::choice::NOT_FINITE;

use super::all_reduce::AllReduce;
use super::backend::{Backend, BackendError, Heads, Matrix, Norm};
use super::batch::{Batch, ForwardError};
use super::bid;
use super::cache::{CacheError, CacheShape, KvCache};
use super::config::Shard;
use super::weights::Tensor;

use threads::Threads;

/// The CPU: the caller's thread, unless it has more.
#[derive(Debug, Default)]
pub struct CpuBackend {
    threads: Threads,
    /// Outputs of a linear map, before they are put in order.
    by_row: Vec<f32>,
}

impl CpuBackend {
    /// Computes with so many threads, and the same bits with any number.
    ///
    /// # Errors
    /// If the system does not start them.
    pub fn new(threads: usize) -> Result<Self, BackendError> {
        Ok(Self { threads: Threads::new(threads)?, by_row: Vec::new() })
    }
}

impl Backend for CpuBackend {
    type Buffer = Vec<f32>;
    type Batch<'rows> = Batch<'rows>;
    type Choice = Vec<u64>;
    type Graph = Infallible;
    type Fetch<T: Plain> = Option<Vec<T>>;

    fn upload(&mut self, tensor: Tensor) -> Result<Vec<f32>, BackendError> {
        Ok(tensor.into_f32())
    }

    fn batch<'rows>(&mut self, batch: Batch<'rows>) -> Result<Batch<'rows>, BackendError> {
        Ok(batch)
    }

    fn activation(&mut self, room: usize) -> Result<Vec<f32>, BackendError> {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(room).map_err(BackendError::new)?;
        Ok(buffer)
    }

    fn embed(
        &mut self,
        output: &mut Vec<f32>,
        table: &Matrix<Vec<f32>>,
        batch: &Batch<'_>,
    ) -> Result<(), BackendError> {
        output.clear();
        for place in &batch.places {
            output.extend_from_slice(&table.elements[place.token * table.columns..][..table.columns]);
        }
        Ok(())
    }

    fn norm(
        &mut self,
        output: &mut Vec<f32>,
        hidden: &Vec<f32>,
        norm: &Norm<Vec<f32>>,
    ) -> Result<(), BackendError> {
        arithmetic::norm(output, hidden, norm);
        Ok(())
    }

    fn add_norm(
        &mut self,
        output: &mut Vec<f32>,
        hidden: &mut Vec<f32>,
        summand: &Vec<f32>,
        norm: &Norm<Vec<f32>>,
    ) -> Result<(), BackendError> {
        arithmetic::add(hidden, summand);
        arithmetic::norm(output, hidden, norm);
        Ok(())
    }

    fn linear(
        &mut self,
        output: &mut Vec<f32>,
        input: &Vec<f32>,
        map: &Matrix<Vec<f32>>,
    ) -> Result<(), BackendError> {
        arithmetic::linear([output, &mut self.by_row], input, map, &self.threads);
        Ok(())
    }

    fn attend(
        &mut self,
        output: &mut Vec<f32>,
        heads: Heads<'_, Vec<f32>>,
        batch: &Batch<'_>,
        cache: &mut KvCache,
    ) -> Result<(), BackendError> {
        attention::attend(output, heads, (batch, cache), &self.threads);
        Ok(())
    }

    fn gated_silu(
        &mut self,
        output: &mut Vec<f32>,
        gate: &Vec<f32>,
        up: &Vec<f32>,
    ) -> Result<(), BackendError> {
        arithmetic::gated_silu(output, gate, up);
        Ok(())
    }

    fn all_reduce_sum(
        &mut self,
        summand: &mut Vec<f32>,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError> {
        Ok(group.all_reduce_sum(summand)?)
    }

    fn reduce_vote(
        &mut self,
        words: &[u64],
        group: &mut dyn AllReduce,
    ) -> Result<Option<Vec<u64>>, ForwardError> {
        let mut words = words.to_vec();
        group.all_reduce_min(&mut words)?;
        Ok(Some(words))
    }

    fn last_positions(
        &mut self,
        output: &mut Vec<f32>,
        input: &Vec<f32>,
        width: usize,
        batch: &Batch<'_>,
    ) -> Result<(), BackendError> {
        output.clear();
        let positions = batch.places.iter().zip(input.chunks_exact(width));
        positions.filter(|(place, _)| place.last).for_each(|(_, values)| output.extend_from_slice(values));
        Ok(())
    }

    fn choice(&mut self, rows: usize) -> Result<Vec<u64>, BackendError> {
        let mut bids = Vec::new();
        bids.try_reserve_exact(rows).map_err(BackendError::new)?;
        Ok(bids)
    }

    fn choose(
        &mut self,
        bids: &mut Vec<u64>,
        logits: &Vec<f32>,
        shard: Shard,
        batch: &Batch<'_>,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError> {
        let first_token = u32::try_from(shard.first_token).unwrap_or(u32::MAX);
        let rows = logits.chunks_exact(shard.tokens).zip(batch.draws());
        bids.clear();
        bids.extend(rows.map(|(row, draw)| bid::best(row, first_token, draw)));
        Ok(group.all_reduce_min(bids)?)
    }

    fn follow(
        &mut self,
        batch: &mut Batch<'_>,
        bids: &Vec<u64>,
        follows: &[Option<usize>],
    ) -> Result<(), ForwardError> {
        for (place, row) in batch.places.iter_mut().zip(follows) {
            let Some(row) = *row else { continue };
            let token = bids.get(row).copied().and_then(bid::token);
            place.token = token.ok_or(ForwardError::NotFinite { row })? as usize;
        }
        Ok(())
    }

    fn tokens(&mut self, bids: &Vec<u64>) -> Result<Option<Vec<u32>>, ForwardError> {
        Ok(Some(bids.iter().map(|bid| bid::token(*bid).unwrap_or(NOT_FINITE)).collect()))
    }

    fn fetched<T: Plain>(&mut self, fetch: &mut Option<Vec<T>>) -> Result<Option<Vec<T>>, ForwardError> {
        Ok(fetch.take())
    }

    fn download(&mut self, activation: &Vec<f32>) -> Result<Vec<f32>, BackendError> {
        Ok(activation.clone())
    }

    fn cache(&mut self, shape: CacheShape) -> Result<KvCache, CacheError> {
        KvCache::of_shape(shape)
    }

    fn read_page(&mut self, cache: &KvCache, page: u32) -> Result<Vec<u8>, CacheError> {
        let mut bytes = Vec::new();
        cache.read_page(page, &mut bytes)?;
        Ok(bytes)
    }

    fn write_page(&mut self, cache: &mut KvCache, page: u32, bytes: &[u8]) -> Result<(), CacheError> {
        cache.write_page(page, bytes)
    }
}
