//! A device as a backend: the kernels of `lockstep-kernels`, on whatever runs them.
//!
//! **Nothing of this has run on a GPU.** The tests run it with the kernels' own sources executed on the CPU.
//!
//! Weights keep the type they have in the checkpoint, activations are `f32`, the cache is of either type. Everything is
//! enqueued in order; only a download waits. What a forward chose is fetched while the device goes on, and the next one may take it
//! from where it is. A forward of activations that have been as long before takes no memory.
//!
//! Reading order: here, [`batch`].

mod batch;

use std::fmt::Debug;
use std::time::Duration;

use lockstep_kernels::cuda::{CommunicatorError, CudaError};
use lockstep_kernels::operations::attention::Attention;
use lockstep_kernels::operations::choice::{Argmax, ChosenTokens, FollowTokens, Sample};
use lockstep_kernels::operations::matmul::Matmul;
use lockstep_kernels::operations::paged::{self, GatherPages, RopeAppend, ScatterPages};
use lockstep_kernels::operations::rows::{AddRmsNorm, GatherRows, RmsNorm, SiluMul};
use lockstep_kernels::{
    Buffer, Captures, Device, Element, GroupTrouble, Grouped, NAME_BYTES, Operation, Plain, Reduction, Seat,
};

use super::all_reduce::{AllReduce, CollectiveError};
use super::backend::{Backend, BackendError, Heads, Matrix, Norm};
use super::batch::{Batch, ForwardError};
use super::cache::{CacheError, CacheShape, KvCache};
use super::config::Shard;
use super::weights::{Precision, Tensor};
pub use batch::DeviceBatch;
use batch::{Draws, Numbers};

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

/// The choice of rows' tokens.
#[derive(Debug)]
pub struct DeviceChoice<T> {
    /// `[rows]`: the group's, once its devices or hosts have met.
    bids: T,
    /// `[rows]`.
    tokens: T,
}

/// A device, and how its ranks' parts meet.
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

    /// The device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
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

    /// Makes an activation `[rows, width]`.
    fn shape(&mut self, activation: &mut D::Buffer, rows: u32, width: u32) -> Result<(), BackendError> {
        let length = u64::from(rows) * u64::from(width);
        self.device.resize(activation, length).map_err(BackendError::new)
    }

    /// Rows of `table`, `[.., width]`, by number.
    fn gather(
        &mut self,
        output: &mut D::Buffer,
        table: &D::Buffer,
        indices: &D::Buffer,
        width: usize,
    ) -> Result<(), BackendError> {
        let (entries, width) = (rows_of(table, width), small(width));
        self.shape(output, rows_of(indices, 1), width)?;
        self.run(GatherRows { output, table, indices, entries, width })
    }
}

impl<D: Grouped> DeviceBackend<D> {
    /// Replaces each word by the least of the group's: on the devices, or else between the hosts.
    fn reduce_min(&mut self, words: &mut D::Buffer, group: &mut dyn AllReduce) -> Result<(), ForwardError> {
        if group.size() == 1 || self.device.all_reduce(Reduction::Min, words).map_err(blame)? {
            return Ok(());
        }
        let mut values: Vec<u64> = self.device.download(words).map_err(BackendError::new)?;
        group.all_reduce_min(&mut values)?;
        Ok(self.device.overwrite(words, &values).map_err(BackendError::new)?)
    }
}

impl<D: Grouped<Buffer: Debug + Send> + Captures + Send + 'static> Backend for DeviceBackend<D> {
    type Buffer = D::Buffer;
    type Batch<'rows> = DeviceBatch<D::Buffer>;
    type Choice = DeviceChoice<D::Buffer>;
    type Graph = D::Graph;
    type Fetch<T: Plain> = D::Fetch<T>;

    fn upload(&mut self, Tensor { precision, bytes }: Tensor) -> Result<D::Buffer, BackendError> {
        let element = match precision {
            Precision::Bf16 => Element::Bf16,
            Precision::F16 => Element::F16,
            Precision::F32 => Element::F32,
        };
        self.device.upload_bytes(element, &bytes).map_err(BackendError::new)
    }

    fn batch<'rows>(&mut self, batch: Batch<'rows>) -> Result<DeviceBatch<D::Buffer>, BackendError> {
        DeviceBatch::upload(&mut self.device, &Numbers::of(&batch), (batch.heads, batch.shape))
    }

    fn activation(&mut self, room: usize) -> Result<D::Buffer, BackendError> {
        // A device has no empty memory.
        self.unwritten(Element::F32, room.max(1) as u64)
    }

    fn embed(
        &mut self,
        output: &mut D::Buffer,
        table: &Matrix<D::Buffer>,
        batch: &DeviceBatch<D::Buffer>,
    ) -> Result<(), BackendError> {
        self.gather(output, &table.elements, &batch.tokens, table.columns)
    }

    fn norm(
        &mut self,
        output: &mut D::Buffer,
        input: &D::Buffer,
        norm: &Norm<D::Buffer>,
    ) -> Result<(), BackendError> {
        let &Norm { scale: ref weight, width, epsilon } = norm;
        let (rows, width) = (rows_of(input, width), small(width));
        self.shape(output, rows, width)?;
        self.run(RmsNorm { output, input, weight, rows, width, epsilon })
    }

    fn add_norm(
        &mut self,
        output: &mut D::Buffer,
        hidden: &mut D::Buffer,
        summand: &D::Buffer,
        norm: &Norm<D::Buffer>,
    ) -> Result<(), BackendError> {
        let &Norm { scale: ref weight, width, epsilon } = norm;
        let (rows, width) = (rows_of(hidden, width), small(width));
        self.shape(output, rows, width)?;
        self.run(AddRmsNorm { output, hidden, summand, weight, rows, width, epsilon })
    }

    fn linear(
        &mut self,
        output: &mut D::Buffer,
        input: &D::Buffer,
        map: &Matrix<D::Buffer>,
    ) -> Result<(), BackendError> {
        let rows = rows_of(input, map.columns);
        let (outputs, inputs, weight) = (small(map.rows), small(map.columns), &map.elements);
        self.shape(output, rows, outputs)?;
        self.run(Matmul { output, input, weight, rows, outputs, inputs })
    }

    fn attend(
        &mut self,
        output: &mut D::Buffer,
        heads: Heads<'_, D::Buffer>,
        batch: &DeviceBatch<D::Buffer>,
        cache: &mut KvCache<D::Buffer>,
    ) -> Result<(), BackendError> {
        let (shape, places, layer) = (device_shape(cache.shape()), batch.places(), small(heads.layer));
        let Heads { queries, keys, values, turns, .. } = heads;
        let context = rows_of(turns, cache.shape().head_dim);
        let (heads, cache) = (batch.heads, &mut cache.data);
        self.shape(output, rows_of(&*queries, 1), 1)?;
        self.run(RopeAppend { queries, cache, keys, values, turns, places, shape, heads, layer, context })?;
        let (tiles, tile_limit) = (&batch.tiles, batch.tile_limit);
        self.run(Attention { output, queries, cache, places, tiles, tile_limit, shape, heads, layer })
    }

    fn gated_silu(
        &mut self,
        output: &mut D::Buffer,
        gate: &D::Buffer,
        up: &D::Buffer,
    ) -> Result<(), BackendError> {
        let count = rows_of(gate, 1);
        self.shape(output, count, 1)?;
        self.run(SiluMul { output, gate, up, count })
    }

    fn all_reduce_sum(
        &mut self,
        summand: &mut D::Buffer,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError> {
        if group.size() == 1 || self.device.all_reduce(Reduction::Sum, summand).map_err(blame)? {
            return Ok(());
        }
        let mut values: Vec<f32> = self.device.download(summand).map_err(BackendError::new)?;
        group.all_reduce_sum(&mut values)?;
        Ok(self.device.overwrite(summand, &values).map_err(BackendError::new)?)
    }

    fn reduce_vote(
        &mut self,
        words: &[u64],
        group: &mut dyn AllReduce,
    ) -> Result<D::Fetch<u64>, ForwardError> {
        let mut vote = self.device.upload(words).map_err(BackendError::new)?;
        self.reduce_min(&mut vote, group)?;
        self.device.fetch(&vote).map_err(blame)
    }

    fn last_positions(
        &mut self,
        output: &mut D::Buffer,
        input: &D::Buffer,
        width: usize,
        batch: &DeviceBatch<D::Buffer>,
    ) -> Result<(), BackendError> {
        self.gather(output, input, &batch.ends, width)
    }

    fn choice(&mut self, rows: usize) -> Result<DeviceChoice<D::Buffer>, BackendError> {
        // A device has no empty memory.
        let rows = rows.max(1) as u64;
        Ok(DeviceChoice {
            bids: self.unwritten(Element::U64, rows)?,
            tokens: self.unwritten(Element::U32, rows)?,
        })
    }

    fn choose(
        &mut self,
        DeviceChoice { bids, tokens }: &mut DeviceChoice<D::Buffer>,
        logits: &D::Buffer,
        shard: Shard,
        batch: &DeviceBatch<D::Buffer>,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError> {
        let (rows, width, first_token) =
            (rows_of(&batch.ends, 1), small(shard.tokens), small(shard.first_token));
        self.shape(bids, rows, 1)?;
        self.shape(tokens, rows, 1)?;
        match &batch.draws {
            Some(Draws { seeds, temperatures }) => {
                self.run(Sample { bids, logits, seeds, temperatures, width, first_token })?;
            }
            None => self.run(Argmax { bids, logits, rows, width, first_token })?,
        }
        self.reduce_min(bids, group)?;
        Ok(self.run(ChosenTokens { tokens, bids, rows })?)
    }

    fn follow(
        &mut self,
        batch: &mut DeviceBatch<D::Buffer>,
        choice: &DeviceChoice<D::Buffer>,
        follows: &[Option<usize>],
    ) -> Result<(), ForwardError> {
        let follows = self.numbers(&batch.follows(follows))?;
        Ok(self.run(FollowTokens { tokens: &mut batch.tokens, chosen: &choice.tokens, follows: &follows })?)
    }

    fn tokens(&mut self, choice: &DeviceChoice<D::Buffer>) -> Result<D::Fetch<u32>, ForwardError> {
        self.device.fetch(&choice.tokens).map_err(blame)
    }

    fn fetched<T: Plain>(&mut self, fetch: &mut D::Fetch<T>) -> Result<Option<Vec<T>>, ForwardError> {
        self.device.fetched(fetch).map_err(blame)
    }

    fn runs_ahead(&self, size: usize) -> bool {
        size == 1 || self.device.has_joined()
    }

    fn download(&mut self, activation: &D::Buffer) -> Result<Vec<f32>, BackendError> {
        self.device.download(activation).map_err(BackendError::new)
    }

    fn blank(
        &mut self,
        [rows, list_length]: [usize; 2],
        shape: CacheShape,
        heads: usize,
    ) -> Result<DeviceBatch<D::Buffer>, BackendError> {
        DeviceBatch::upload(&mut self.device, &Numbers::blank(rows, list_length), (heads, shape))
    }

    fn refill(&mut self, blank: &mut DeviceBatch<D::Buffer>, batch: &Batch<'_>) -> Result<(), BackendError> {
        blank.refill(&mut self.device, batch)
    }

    fn capture(
        &mut self,
        record: impl FnOnce(&mut Self) -> Result<(), ForwardError>,
    ) -> Result<D::Graph, ForwardError> {
        self.device.begin_capture().map_err(BackendError::new)?;
        let recorded = record(self);
        let graph = self.device.end_capture();
        recorded?;
        Ok(graph.map_err(BackendError::new)?)
    }

    fn replay(&mut self, graph: &D::Graph) -> Result<(), ForwardError> {
        self.device.replay(graph).map_err(blame)
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
    if trouble.is::<CudaError>() {
        return BackendError::new(trouble).into();
    }
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
