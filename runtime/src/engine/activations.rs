//! What lies between a forward pass's weights and its tokens: memory that is taken once and used by every pass.

use super::backend::{Backend, BackendError};
use super::config::{Config, Shard};

/// Memory of one pass after another; each operation makes its output as long as the batch asks for.
#[derive(Debug)]
pub(super) struct Activations<B: Backend> {
    /// The residual stream, `[positions, hidden]`.
    pub(super) hidden: B::Buffer,
    /// The same, normalised for what comes next.
    pub(super) normed: B::Buffer,
    /// What half a layer adds to the stream, `[positions, hidden]`: this rank's part, then the group's sum.
    pub(super) summand: B::Buffer,
    /// `[positions, heads, head_dim]`, this rank's, as are the next three.
    pub(super) queries: B::Buffer,
    /// `[positions, kv_heads, head_dim]`.
    pub(super) keys: B::Buffer,
    /// `[positions, kv_heads, head_dim]`.
    pub(super) values: B::Buffer,
    /// What the queries attend to, in their shape.
    pub(super) attended: B::Buffer,
    /// `[positions, feed_forward]`, this rank's, as are the next two.
    pub(super) gate: B::Buffer,
    /// `[positions, feed_forward]`.
    pub(super) up: B::Buffer,
    /// `silu(gate) * up`.
    pub(super) gated: B::Buffer,
    /// The last positions of the rows, `[rows, hidden]`.
    pub(super) last: B::Buffer,
    /// `[rows, tokens]`, this rank's part of the vocabulary.
    pub(super) logits: B::Buffer,
}

impl<B: Backend> Activations<B> {
    /// Takes memory for batches of up to so many positions and rows; larger ones take more when they come.
    pub(super) fn new(
        backend: &mut B,
        (config, shard): (&Config, Shard),
        [positions, rows]: [usize; 2],
    ) -> Result<Self, BackendError> {
        let [width, kv_width] = [shard.heads, shard.kv_heads].map(|heads| heads * config.head_dim);
        let mut take = |count: usize, width: usize| backend.activation(count * width);
        Ok(Self {
            hidden: take(positions, config.hidden)?,
            normed: take(positions, config.hidden)?,
            summand: take(positions, config.hidden)?,
            queries: take(positions, width)?,
            keys: take(positions, kv_width)?,
            values: take(positions, kv_width)?,
            attended: take(positions, width)?,
            gate: take(positions, shard.feed_forward)?,
            up: take(positions, shard.feed_forward)?,
            gated: take(positions, shard.feed_forward)?,
            last: take(rows, config.hidden)?,
            logits: take(rows, shard.tokens)?,
        })
    }
}
