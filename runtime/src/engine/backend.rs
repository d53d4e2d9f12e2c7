//! What computes a forward pass: memory for weights, activations and pages, and the operations on it.
//!
//! [`Llama`](super::Llama) is written over this trait once. `cpu` computes in plain Rust, `device` with the CUDA kernels.
//! Activations are `f32`, row-major, a row a position. A backend is batch-invariant: a row's bits are a function of that
//! row's tokens alone.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use lockstep_kernels::{NAME_BYTES, Plain};

use super::all_reduce::AllReduce;
use super::batch::{Batch, ForwardError};
use super::cache::{CacheError, CacheShape, KvCache};
use super::config::Shard;
use super::weights::Tensor;

const NO_GRAPHS: &str = "only CUDA devices capture forwards";

/// Memory, and the operations of a forward pass in their order.
pub trait Backend: Send + 'static {
    /// Memory of a weight, an activation or a cache.
    type Buffer: Debug + Send;
    /// A batch in the form that the operations use.
    type Batch<'rows>: Debug + Send;
    /// The choice of rows' tokens.
    type Choice: Debug + Send;
    /// A captured forward.
    type Graph: Debug + Send;
    /// Values on their way to the host.
    type Fetch<T: Plain>: Debug + Send;

    /// Takes elements over, in the type that this backend computes with.
    ///
    /// # Errors
    /// If there is no memory.
    fn upload(&mut self, tensor: Tensor) -> Result<Self::Buffer, BackendError>;

    /// Takes a batch over; the rows live on.
    ///
    /// # Errors
    /// If there is no memory.
    fn batch<'rows>(&mut self, batch: Batch<'rows>) -> Result<Self::Batch<'rows>, BackendError>;

    /// Memory for an activation of up to `room` elements; an operation that writes more takes more.
    ///
    /// # Errors
    /// If there is none.
    fn activation(&mut self, room: usize) -> Result<Self::Buffer, BackendError>;

    /// The table's row of each position's token, `[positions, columns]`.
    ///
    /// # Errors
    /// If the device fails.
    fn embed(
        &mut self,
        output: &mut Self::Buffer,
        table: &Matrix<Self::Buffer>,
        batch: &Self::Batch<'_>,
    ) -> Result<(), BackendError>;

    /// Each row of `hidden`, normalised.
    ///
    /// # Errors
    /// If the device fails.
    fn norm(
        &mut self,
        output: &mut Self::Buffer,
        hidden: &Self::Buffer,
        norm: &Norm<Self::Buffer>,
    ) -> Result<(), BackendError>;

    /// Adds `summand` to `hidden`, and gives the sum's rows normalised.
    ///
    /// # Errors
    /// If the device fails.
    fn add_norm(
        &mut self,
        output: &mut Self::Buffer,
        hidden: &mut Self::Buffer,
        summand: &Self::Buffer,
        norm: &Norm<Self::Buffer>,
    ) -> Result<(), BackendError>;

    /// `[positions, columns]` of the map to `[positions, rows]` of it.
    ///
    /// # Errors
    /// If the device fails.
    fn linear(
        &mut self,
        output: &mut Self::Buffer,
        input: &Self::Buffer,
        map: &Matrix<Self::Buffer>,
    ) -> Result<(), BackendError>;

    /// Turns queries and keys, writes keys and values to the batch's places in the cache, and gives what the queries
    /// attend to, in their shape.
    ///
    /// # Errors
    /// If the device fails.
    fn attend(
        &mut self,
        output: &mut Self::Buffer,
        heads: Heads<'_, Self::Buffer>,
        batch: &Self::Batch<'_>,
        cache: &mut KvCache<Self::Buffer>,
    ) -> Result<(), BackendError>;

    /// `silu(gate) * up`, element by element.
    ///
    /// # Errors
    /// If the device fails.
    fn gated_silu(
        &mut self,
        output: &mut Self::Buffer,
        gate: &Self::Buffer,
        up: &Self::Buffer,
    ) -> Result<(), BackendError>;

    /// Replaces `summand` by its sum over the ranks of the group, the same bits on each.
    ///
    /// # Errors
    /// [`ForwardError::Collective`] for a peer, [`ForwardError::Backend`] for this rank's device.
    fn all_reduce_sum(
        &mut self,
        summand: &mut Self::Buffer,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError>;

    /// Sends for the least of the group's words of a vote, each by itself, behind everything before.
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    fn reduce_vote(
        &mut self,
        words: &[u64],
        group: &mut dyn AllReduce,
    ) -> Result<Self::Fetch<u64>, ForwardError>;

    /// The rows of `input` at which rows of the batch end, `width` elements each.
    ///
    /// # Errors
    /// If the device fails.
    fn last_positions(
        &mut self,
        output: &mut Self::Buffer,
        input: &Self::Buffer,
        width: usize,
        batch: &Self::Batch<'_>,
    ) -> Result<(), BackendError>;

    /// Memory for the choice of up to so many rows' tokens; a choice of more takes more.
    ///
    /// # Errors
    /// If there is none.
    fn choice(&mut self, rows: usize) -> Result<Self::Choice, BackendError>;

    /// Chooses the token of each row of the batch, over the parts of all ranks: drawn where the batch says how, else the likeliest.
    /// `logits` are `[rows, tokens]` of this rank's part of the vocabulary.
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    fn choose(
        &mut self,
        choice: &mut Self::Choice,
        logits: &Self::Buffer,
        shard: Shard,
        batch: &Self::Batch<'_>,
        group: &mut dyn AllReduce,
    ) -> Result<(), ForwardError>;

    /// Gives positions of the batch the tokens that rows of `choice` were chosen, behind everything before.
    ///
    /// # Errors
    /// If the device fails.
    fn follow(
        &mut self,
        batch: &mut Self::Batch<'_>,
        choice: &Self::Choice,
        follows: &[Option<usize>],
    ) -> Result<(), ForwardError>;

    /// Sends for the tokens that were chosen; [`NOT_FINITE`](lockstep_kernels::operations::choice::NOT_FINITE) for a row with a logit
    /// that is not.
    ///
    /// # Errors
    /// If the device fails.
    fn tokens(&mut self, choice: &Self::Choice) -> Result<Self::Fetch<u32>, ForwardError>;

    /// What was sent for, once everything before that has run; then no more. Does not wait.
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    fn fetched<T: Plain>(&mut self, fetch: &mut Self::Fetch<T>) -> Result<Option<Vec<T>>, ForwardError>;

    /// Whether forwards in a group of so many only have to be launched, and run by themselves.
    fn runs_ahead(&self, _size: usize) -> bool {
        false
    }

    /// The elements of an activation, once everything before has run.
    ///
    /// # Errors
    /// If the device fails.
    fn download(&mut self, activation: &Self::Buffer) -> Result<Vec<f32>, BackendError>;

    /// A batch of rows of one position each, with page lists of this length: so many, none of which has a page yet.
    ///
    /// # Errors
    /// If there is no memory, or nothing can be captured here.
    fn blank(
        &mut self,
        [_rows, _list_length]: [usize; 2],
        _shape: CacheShape,
        _heads: usize,
    ) -> Result<Self::Batch<'static>, BackendError> {
        Err(BackendError::new(NO_GRAPHS))
    }

    /// Puts a batch of no more rows of one position each, with pages in a cache of the same shape, into a blank one.
    ///
    /// # Errors
    /// If the device fails.
    fn refill(&mut self, _blank: &mut Self::Batch<'static>, _batch: &Batch<'_>) -> Result<(), BackendError> {
        Err(BackendError::new(NO_GRAPHS))
    }

    /// Captures what `record` asks for, without running it.
    ///
    /// # Errors
    /// What `record` ends with, or if it cannot be captured.
    fn capture(
        &mut self,
        _record: impl FnOnce(&mut Self) -> Result<(), ForwardError>,
    ) -> Result<Self::Graph, ForwardError>
    where
        Self: Sized,
    {
        Err(BackendError::new(NO_GRAPHS).into())
    }

    /// Runs what was captured, now or later but in order.
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    fn replay(&mut self, _graph: &Self::Graph) -> Result<(), ForwardError> {
        Err(BackendError::new(NO_GRAPHS).into())
    }

    /// Bytes for which there is room, where that is less than the host's memory.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether it can join a communicator of the ranks' own devices.
    ///
    /// # Errors
    /// Why it cannot: the ranks' summands meet between the hosts.
    fn joins(&self) -> Result<(), BackendError> {
        Err(BackendError::new("the CPU's summands meet between the hosts"))
    }

    /// A fresh name for a communicator.
    ///
    /// # Errors
    /// Why there is none.
    fn name_group(&mut self) -> Result<[u8; NAME_BYTES], BackendError> {
        Err(BackendError::new("the CPU's summands meet between the hosts"))
    }

    /// Joins the communicator of this name; summands meet there from now on.
    ///
    /// # Errors
    /// If not all ranks have joined within `patience`.
    fn join(&mut self, _: &[u8; NAME_BYTES], _: Shard, _patience: Duration) -> Result<(), BackendError> {
        Err(BackendError::new("the CPU's summands meet between the hosts"))
    }

    /// Leaves the communicator, if it has joined one: summands meet between the hosts.
    fn leave(&mut self) {}

    /// Waits until everything before has run.
    ///
    /// # Errors
    /// [`ForwardError::Collective`] if a peer has not come within `deadline`, or failed.
    fn settle(&mut self, _deadline: Duration) -> Result<(), ForwardError> {
        Ok(())
    }

    /// A cache of this shape, every element a NaN.
    ///
    /// # Errors
    /// [`CacheError::Size`], [`CacheError::Backend`].
    fn cache(&mut self, shape: CacheShape) -> Result<KvCache<Self::Buffer>, CacheError>;

    /// The content of a page, as any rank's cache of the same shape and backend takes it.
    ///
    /// # Errors
    /// [`CacheError`]: no such page, or the device fails.
    fn read_page(&mut self, cache: &KvCache<Self::Buffer>, page: u32) -> Result<Vec<u8>, CacheError>;

    /// Replaces the content of a page.
    ///
    /// # Errors
    /// [`CacheError`]: no such page, bytes that are not a page, or the device fails.
    fn write_page(
        &mut self,
        cache: &mut KvCache<Self::Buffer>,
        page: u32,
        bytes: &[u8],
    ) -> Result<(), CacheError>;
}

/// A linear map without bias, or a table: `[rows, columns]`, row-major.
#[derive(Debug)]
pub struct Matrix<T> {
    /// Its elements.
    pub elements: T,
    /// Outputs of the map; entries of the table.
    pub rows: usize,
    /// Inputs of the map; elements of an entry.
    pub columns: usize,
}

/// A root-mean-square normalisation with a learnt scale.
#[derive(Debug)]
pub struct Norm<T> {
    /// Scale of each element.
    pub scale: T,
    /// Elements of a row.
    pub width: usize,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// What attention of one layer starts from, this rank's heads.
#[derive(Debug)]
pub struct Heads<'a, T> {
    /// `[positions, heads, head_dim]`, not yet turned.
    pub queries: &'a mut T,
    /// `[positions, kv_heads, head_dim]`, not yet turned.
    pub keys: &'a mut T,
    /// `[positions, kv_heads, head_dim]`.
    pub values: &'a T,
    /// `[context, head_dim / 2, 2]`: cosine and sine of each position and pair.
    pub turns: &'a T,
    /// Index of the layer.
    pub layer: usize,
}

/// A backend's own error, carried through the forward pass unchanged.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BackendError(Box<dyn Error + Send + Sync>);

impl BackendError {
    /// Wraps a device's error.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}
