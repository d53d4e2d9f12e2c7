//! The CPU as a backend: plain Rust, everything in `f32`.
//!
//! Reading order: here, [`threads`], [`arithmetic`], [`attention`], [`pages`].

mod arithmetic;
mod attention;
mod pages;
mod threads;

use super::all_reduce::AllReduce;
use super::backend::{Backend, BackendError, Heads, Matrix, Norm};
use super::batch::{Batch, ForwardError};
use super::cache::{CacheError, CacheShape, KvCache};
use super::greedy::Choice;
use super::weights::Tensor;

use threads::Threads;

/// The CPU: the caller's thread, unless it has more.
#[derive(Debug, Default)]
pub struct CpuBackend {
    threads: Threads,
}

impl CpuBackend {
    /// Computes with so many threads, and the same bits with any number.
    ///
    /// # Errors
    /// If the system does not start them.
    pub fn new(threads: usize) -> Result<Self, BackendError> {
        Ok(Self { threads: Threads::new(threads)? })
    }
}

impl Backend for CpuBackend {
    type Buffer = Vec<f32>;
    type Batch<'rows> = Batch<'rows>;

    fn upload(&mut self, tensor: Tensor) -> Result<Vec<f32>, BackendError> {
        Ok(tensor.into_f32())
    }

    fn batch<'rows>(&mut self, batch: Batch<'rows>) -> Result<Batch<'rows>, BackendError> {
        Ok(batch)
    }

    fn embed(&mut self, table: &Matrix<Vec<f32>>, batch: &Batch<'_>) -> Result<Vec<f32>, BackendError> {
        let row = |token| &table.elements[token * table.columns..][..table.columns];
        Ok(batch.places.iter().flat_map(|place| row(place.token)).copied().collect())
    }

    fn norm(&mut self, hidden: &Vec<f32>, norm: &Norm<Vec<f32>>) -> Result<Vec<f32>, BackendError> {
        Ok(arithmetic::norm(hidden, norm))
    }

    fn add_norm(
        &mut self,
        hidden: &mut Vec<f32>,
        summand: &Vec<f32>,
        norm: &Norm<Vec<f32>>,
    ) -> Result<Vec<f32>, BackendError> {
        arithmetic::add(hidden, summand);
        Ok(arithmetic::norm(hidden, norm))
    }

    fn linear(&mut self, input: &Vec<f32>, map: &Matrix<Vec<f32>>) -> Result<Vec<f32>, BackendError> {
        Ok(arithmetic::linear(input, map, &self.threads))
    }

    fn attend(
        &mut self,
        heads: Heads<'_, Vec<f32>>,
        batch: &Batch<'_>,
        cache: &mut KvCache,
    ) -> Result<Vec<f32>, BackendError> {
        Ok(attention::attend(heads, batch, cache, &self.threads))
    }

    fn gated_silu(&mut self, mut gate: Vec<f32>, up: &Vec<f32>) -> Result<Vec<f32>, BackendError> {
        arithmetic::gated_silu(&mut gate, up);
        Ok(gate)
    }

    fn all_reduce_sum(
        &mut self,
        summand: &mut Vec<f32>,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError> {
        Ok(group.all_reduce_sum(summand)?)
    }

    fn last_positions(
        &mut self,
        input: &Vec<f32>,
        width: usize,
        batch: &Batch<'_>,
    ) -> Result<Vec<f32>, BackendError> {
        let positions = batch.places.iter().zip(input.chunks_exact(width));
        Ok(positions.filter(|(place, _)| place.last).flat_map(|(_, values)| values).copied().collect())
    }

    fn choose(&mut self, logits: &Vec<f32>, vocabulary: usize) -> Result<Vec<Option<u32>>, BackendError> {
        let token = |row| Choice::of(row).map(|choice| choice.token);
        Ok(logits.chunks_exact(vocabulary).map(token).collect())
    }

    fn download(&mut self, activation: Vec<f32>) -> Result<Vec<f32>, BackendError> {
        Ok(activation)
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
