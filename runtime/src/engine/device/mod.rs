//! A device as a backend: the kernels of `lockstep-kernels`, on whatever runs them.
//!
//! **Nothing of this has run on a GPU.** The tests run it with the kernels' own sources executed on the CPU.
//!
//! Weights keep the type they have in the checkpoint, activations are `f32`, the cache is of either type. Everything is
//! enqueued in order; only a download waits.
//!
//! Reading order: here, [`batch`].

mod batch;

use std::time::Duration;

use lockstep_kernels::cuda::CommunicatorError;
use lockstep_kernels::operations::attention::{Attention, tile_limit};
use lockstep_kernels::operations::choice::{Argmax, ChosenTokens, NOT_FINITE};
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::paged::{self, GatherPages, RopeAppend, ScatterPages};
use lockstep_kernels::operations::rows::{AddRmsNorm, GatherRows, RmsNorm, SiluMul};
use lockstep_kernels::{Buffer, Device, Element, GroupTrouble, Grouped, NAME_BYTES, Operation, Seat};

use super::all_reduce::{AllReduce, CollectiveError};
use super::backend::{Backend, BackendError, Heads, Matrix, Norm};
use super::batch::{Batch, ForwardError};
use super::cache::{CacheError, CacheShape, KvCache};
use super::config::Shard;
use super::weights::{Precision, Tensor};
pub use batch::DeviceBatch;

/// The type of a cache's elements.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum CacheType {
    /// Half the memory and half the traffic; keys and values are rounded.
    Bf16,
    /// As computed.
    #[default]
    F32,
}

impl CacheType {
    /// The name on command lines and in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.element().name()
    }

    /// Bytes of an element.
    fn bytes(self) -> usize {
        match self {
            Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }

    fn element(self) -> Element {
        match self {
            Self::Bf16 => Element::Bf16,
            Self::F32 => Element::F32,
        }
    }
}

/// A device, and how its ranks' summands meet.
#[derive(Debug)]
pub struct DeviceBackend<D> {
    device: D,
    cache: CacheType,
}

impl<D: Device> DeviceBackend<D> {
    /// Computes on `device`, with caches of this type.
    pub fn new(device: D, cache: CacheType) -> Self {
        Self { device, cache }
    }

    fn run<'a>(&mut self, operation: impl Operation<'a, D::Buffer>) -> Result<(), BackendError>
    where
        D::Buffer: 'a,
    {
        self.device.run(operation).map_err(BackendError::new)
    }

    fn numbers(&mut self, numbers: &[u32]) -> Result<D::Buffer, BackendError> {
        self.device.upload(numbers).map_err(BackendError::new)
    }

    /// A buffer that an operation is to fill.
    fn unwritten(&mut self, element: Element, length: u64) -> Result<D::Buffer, BackendError> {
        self.device.unwritten(element, length).map_err(BackendError::new)
    }

    /// An activation that an operation is to fill.
    fn activation(&mut self, rows: u32, width: u32) -> Result<D::Buffer, BackendError> {
        self.unwritten(Element::F32, u64::from(rows) * u64::from(width))
    }

    /// Rows of `table`, `[.., width]`, by number.
    fn gather(
        &mut self,
        table: &D::Buffer,
        indices: &D::Buffer,
        width: usize,
    ) -> Result<D::Buffer, BackendError> {
        let (entries, width) = (rows_of(table, width), small(width));
        let mut output = self.activation(rows_of(indices, 1), width)?;
        self.run(GatherRows { output: &mut output, table, indices, entries, width })?;
        Ok(output)
    }
}

impl<D: Grouped<Buffer: Send> + Send + 'static> Backend for DeviceBackend<D> {
    type Buffer = D::Buffer;
    type Batch<'rows> = DeviceBatch<D::Buffer>;

    fn upload(&mut self, Tensor { precision, bytes }: Tensor) -> Result<D::Buffer, BackendError> {
        let element = match precision {
            Precision::Bf16 => Element::Bf16,
            Precision::F16 => Element::F16,
            Precision::F32 => Element::F32,
        };
        self.device.upload_bytes(element, &bytes).map_err(BackendError::new)
    }

    fn batch<'rows>(&mut self, batch: Batch<'rows>) -> Result<DeviceBatch<D::Buffer>, BackendError> {
        DeviceBatch::upload(&batch, tile_limit_of(&batch), |numbers| self.numbers(numbers))
    }

    fn embed(
        &mut self,
        table: &Matrix<D::Buffer>,
        batch: &DeviceBatch<D::Buffer>,
    ) -> Result<D::Buffer, BackendError> {
        self.gather(&table.elements, &batch.tokens, table.columns)
    }

    fn norm(&mut self, input: &D::Buffer, norm: &Norm<D::Buffer>) -> Result<D::Buffer, BackendError> {
        let &Norm { scale: ref weight, width, epsilon } = norm;
        let (rows, width) = (rows_of(input, width), small(width));
        let mut output = self.activation(rows, width)?;
        self.run(RmsNorm { output: &mut output, input, weight, rows, width, epsilon })?;
        Ok(output)
    }

    fn add_norm(
        &mut self,
        hidden: &mut D::Buffer,
        summand: &D::Buffer,
        norm: &Norm<D::Buffer>,
    ) -> Result<D::Buffer, BackendError> {
        let &Norm { scale: ref weight, width, epsilon } = norm;
        let (rows, width) = (rows_of(hidden, width), small(width));
        let mut output = self.activation(rows, width)?;
        self.run(AddRmsNorm { output: &mut output, hidden, summand, weight, rows, width, epsilon })?;
        Ok(output)
    }

    fn linear(&mut self, input: &D::Buffer, map: &Matrix<D::Buffer>) -> Result<D::Buffer, BackendError> {
        let rows = rows_of(input, map.columns);
        let (outputs, inputs, weight) = (small(map.rows), small(map.columns), &map.elements);
        let mut output = self.activation(rows, outputs)?;
        self.run(Matmul { output: &mut output, input, weight, rows, outputs, inputs })?;
        Ok(output)
    }

    fn attend(
        &mut self,
        heads: Heads<'_, D::Buffer>,
        batch: &DeviceBatch<D::Buffer>,
        cache: &mut KvCache<D::Buffer>,
    ) -> Result<D::Buffer, BackendError> {
        let (shape, places, layer) = (device_shape(cache.shape()), batch.places(), small(heads.layer));
        let Heads { mut queries, keys, values, turns, .. } = heads;
        let context = rows_of(turns, cache.shape().head_dim);
        let (heads, mut output) = (batch.heads, self.unwritten(Element::F32, queries.len())?);
        self.run(RopeAppend {
            queries: &mut queries,
            cache: &mut cache.data,
            keys: &keys,
            values: &values,
            turns,
            places,
            shape,
            heads,
            layer,
            context,
        })?;
        self.run(Attention {
            output: &mut output,
            queries: &queries,
            cache: &cache.data,
            places,
            tiles: &batch.tiles,
            tile_limit: batch.tile_limit,
            shape,
            heads,
            layer,
        })?;
        Ok(output)
    }

    fn gated_silu(&mut self, gate: D::Buffer, up: &D::Buffer) -> Result<D::Buffer, BackendError> {
        let count = rows_of(&gate, 1);
        let mut output = self.activation(count, 1)?;
        self.run(SiluMul { output: &mut output, gate: &gate, up, count })?;
        Ok(output)
    }

    fn all_reduce_sum(
        &mut self,
        summand: &mut D::Buffer,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError> {
        if group.size() == 1 || self.device.all_reduce_sum(summand).map_err(blame)? {
            return Ok(());
        }
        let mut values: Vec<f32> = self.device.download(summand).map_err(BackendError::new)?;
        group.all_reduce_sum(&mut values)?;
        *summand = self.device.upload(&values).map_err(BackendError::new)?;
        Ok(())
    }

    fn last_positions(
        &mut self,
        input: &D::Buffer,
        width: usize,
        batch: &DeviceBatch<D::Buffer>,
    ) -> Result<D::Buffer, BackendError> {
        self.gather(input, &batch.ends, width)
    }

    fn choose(&mut self, logits: &D::Buffer, vocabulary: usize) -> Result<Vec<Option<u32>>, BackendError> {
        let (rows, width) = (rows_of(logits, vocabulary), small(vocabulary));
        let mut bids = self.unwritten(Element::U64, rows.into())?;
        let mut tokens = self.unwritten(Element::U32, rows.into())?;
        self.run(Argmax { bids: &mut bids, logits, rows, width, first_token: 0 })?;
        self.run(ChosenTokens { tokens: &mut tokens, bids: &bids, rows })?;
        let tokens: Vec<u32> = self.device.download(&tokens).map_err(BackendError::new)?;
        Ok(tokens.into_iter().map(|token| (token != NOT_FINITE).then_some(token)).collect())
    }

    fn download(&mut self, activation: D::Buffer) -> Result<Vec<f32>, BackendError> {
        self.device.download(&activation).map_err(BackendError::new)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.device.free_bytes()
    }

    fn joins(&self) -> Result<(), BackendError> {
        self.device.joins().map_err(BackendError::new)
    }

    fn name_group(&mut self) -> Result<[u8; NAME_BYTES], BackendError> {
        self.device.name_group().map_err(BackendError::new)
    }

    fn join(
        &mut self,
        name: &[u8; NAME_BYTES],
        shard: Shard,
        patience: Duration,
    ) -> Result<(), BackendError> {
        let seat = Seat { rank: shard.rank, size: shard.size };
        self.device.join(name, seat, patience).map_err(BackendError::new)
    }

    fn leave(&mut self) {
        self.device.leave();
    }

    fn settle(&mut self, deadline: Duration) -> Result<(), ForwardError> {
        self.device.settle(deadline).map_err(blame)
    }

    fn cache(&mut self, shape: CacheShape) -> Result<KvCache<D::Buffer>, CacheError> {
        let elements = shape.elements()? as u64;
        let data = self.unwritten(self.cache.element(), elements)?;
        Ok(KvCache::over(shape, self.cache.bytes(), data))
    }

    fn read_page(&mut self, cache: &KvCache<D::Buffer>, page: u32) -> Result<Vec<u8>, CacheError> {
        cache.page(page)?;
        let (shape, listed) = (device_shape(cache.shape()), self.numbers(&[page])?);
        let mut staging = self.unwritten(cache.data.element(), shape.page_elements())?;
        self.run(GatherPages { staging: &mut staging, cache: &cache.data, listed: &listed, shape })?;
        Ok(self.device.download_bytes(&staging).map_err(BackendError::new)?)
    }

    fn write_page(
        &mut self,
        cache: &mut KvCache<D::Buffer>,
        page: u32,
        bytes: &[u8],
    ) -> Result<(), CacheError> {
        cache.page(page)?;
        cache.check_content(bytes)?;
        let (shape, listed) = (device_shape(cache.shape()), self.numbers(&[page])?);
        let staging = self.device.upload_bytes(cache.data.element(), bytes).map_err(BackendError::new)?;
        Ok(self.run(ScatterPages { cache: &mut cache.data, staging: &staging, listed: &listed, shape })?)
    }
}

/// Whether a peer is to blame for what went wrong in a group, or this rank's own device.
fn blame(trouble: GroupTrouble) -> ForwardError {
    match trouble.downcast_ref() {
        Some(
            CommunicatorError::Missing(_)
            | CommunicatorError::Driver { .. }
            | CommunicatorError::Member { .. }
            | CommunicatorError::Foreign { .. },
        ) => BackendError::new(trouble).into(),
        Some(
            CommunicatorError::Refused { .. }
            | CommunicatorError::Late { .. }
            | CommunicatorError::Stuck { .. }
            | CommunicatorError::Graphs { .. }
            | CommunicatorError::Aborted { .. }
            | CommunicatorError::AbortHangs { .. },
        )
        | None => CollectiveError::new(trouble).into(),
    }
}

fn tile_limit_of(batch: &Batch<'_>) -> u32 {
    let CacheShape { kv_heads, head_dim, .. } = batch.shape;
    tile_limit(small(batch.heads), small(kv_heads), small(head_dim))
}

fn device_shape(shape: &CacheShape) -> paged::CacheShape {
    let &CacheShape { pages, layers, page_size, kv_heads, head_dim } = shape;
    let [pages, layers, page_size, kv_heads, head_dim] =
        [pages, layers, page_size, kv_heads, head_dim].map(small);
    paged::CacheShape { pages, layers, page_size, kv_heads, head_dim }
}

/// Rows of `width` elements in a buffer.
fn rows_of(buffer: &impl Buffer, width: usize) -> u32 {
    u32::try_from(buffer.len() / width as u64).unwrap_or(u32::MAX)
}

/// A size as the kernels take it; one beyond 32 bits is beyond what any of them accepts.
fn small(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
