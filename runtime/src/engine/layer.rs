//! One layer: attention and feed-forward, each a summand of the residual stream that the ranks add up.

use super::all_reduce::AllReduce;
use super::backend::{Backend, BackendError, Heads, Matrix, Norm};
use super::batch::ForwardError;
use super::cache::KvCache;
use super::config::Pieces;
use super::llama::ModelError;
use super::loader::Loader;

/// One layer's weights, this rank's part, and the norms behind its halves.
#[derive(Debug)]
pub(super) struct Layer<T> {
    attention: Attention<T>,
    /// Of what the feed-forward takes.
    middle_norm: Norm<T>,
    feed_forward: FeedForward<T>,
    /// Of what the next layer takes, or the output projection.
    end_norm: Norm<T>,
}

/// What a forward pass takes from layer to layer.
pub(super) struct Pass<'a, 'rows, B: Backend> {
    pub(super) backend: &'a mut B,
    pub(super) batch: B::Batch<'rows>,
    pub(super) cache: &'a mut KvCache<B::Buffer>,
    pub(super) turns: &'a B::Buffer,
    pub(super) group: &'a mut dyn AllReduce,
    /// The residual stream, `[positions, hidden]`.
    pub(super) hidden: B::Buffer,
    /// The same, normalised for what comes next.
    pub(super) normed: B::Buffer,
}

impl<B: Backend> Pass<'_, '_, B> {
    /// Adds a summand to the residual stream, summed over the group first, and normalises.
    fn add(&mut self, mut summand: B::Buffer, norm: &Norm<B::Buffer>) -> Result<(), ForwardError> {
        self.backend.all_reduce_sum(&mut summand, self.group)?;
        self.normed = self.backend.add_norm(&mut self.hidden, &summand, norm)?;
        Ok(())
    }
}

impl<T> Layer<T> {
    /// Reads layer `index`; `end_norm` is the name of the norm behind it.
    pub(super) fn load<B: Backend<Buffer = T>>(
        loader: &mut Loader<'_, B>,
        index: usize,
        end_norm: &str,
    ) -> Result<Self, ModelError> {
        let prefix = format!("model.layers.{index}");
        Ok(Self {
            attention: Attention::load(loader, &prefix)?,
            middle_norm: loader.norm(&format!("{prefix}.post_attention_layernorm.weight"))?,
            feed_forward: FeedForward::load(loader, &prefix)?,
            end_norm: loader.norm(end_norm)?,
        })
    }

    /// Takes the pass through the layer of this index.
    pub(super) fn apply<B: Backend<Buffer = T>>(
        &self,
        index: usize,
        pass: &mut Pass<'_, '_, B>,
    ) -> Result<(), ForwardError> {
        let summand = self.attention.apply(index, pass)?;
        pass.add(summand, &self.middle_norm)?;
        let summand = self.feed_forward.apply(pass)?;
        pass.add(summand, &self.end_norm)
    }
}

/// One layer's attention weights, this rank's heads.
#[derive(Debug)]
struct Attention<T> {
    query: Matrix<T>,
    key: Matrix<T>,
    value: Matrix<T>,
    output: Matrix<T>,
}

impl<T> Attention<T> {
    fn load<B: Backend<Buffer = T>>(loader: &mut Loader<'_, B>, prefix: &str) -> Result<Self, ModelError> {
        let config = loader.config;
        let name = |part: &str| format!("{prefix}.self_attn.{part}_proj.weight");
        let [width, kv_width] = [config.heads, config.kv_heads].map(|heads| heads * config.head_dim);
        Ok(Self {
            query: loader.rows(Pieces::KvHeads, &name("q"), [width, config.hidden])?,
            key: loader.rows(Pieces::KvHeads, &name("k"), [kv_width, config.hidden])?,
            value: loader.rows(Pieces::KvHeads, &name("v"), [kv_width, config.hidden])?,
            output: loader.columns(Pieces::KvHeads, &name("o"), [config.hidden, width])?,
        })
    }

    /// This rank's summand, `[positions, hidden]`.
    fn apply<B: Backend<Buffer = T>>(
        &self,
        layer: usize,
        pass: &mut Pass<'_, '_, B>,
    ) -> Result<T, BackendError> {
        let Pass { backend, batch, cache, turns, normed, .. } = pass;
        let heads = Heads {
            queries: backend.linear(normed, &self.query)?,
            keys: backend.linear(normed, &self.key)?,
            values: backend.linear(normed, &self.value)?,
            turns,
            layer,
        };
        let attended = backend.attend(heads, batch, cache)?;
        backend.linear(&attended, &self.output)
    }
}

/// One layer's feed-forward weights, this rank's columns.
#[derive(Debug)]
struct FeedForward<T> {
    gate: Matrix<T>,
    up: Matrix<T>,
    down: Matrix<T>,
}

impl<T> FeedForward<T> {
    fn load<B: Backend<Buffer = T>>(loader: &mut Loader<'_, B>, prefix: &str) -> Result<Self, ModelError> {
        let (hidden, width) = (loader.config.hidden, loader.config.feed_forward);
        let name = |part: &str| format!("{prefix}.mlp.{part}_proj.weight");
        Ok(Self {
            gate: loader.rows(Pieces::FeedForward, &name("gate"), [width, hidden])?,
            up: loader.rows(Pieces::FeedForward, &name("up"), [width, hidden])?,
            down: loader.columns(Pieces::FeedForward, &name("down"), [hidden, width])?,
        })
    }

    /// This rank's summand, `[positions, hidden]`: `down(silu(gate(x)) * up(x))`.
    fn apply<B: Backend<Buffer = T>>(&self, pass: &mut Pass<'_, '_, B>) -> Result<T, BackendError> {
        let Pass { backend, normed, .. } = pass;
        let gate = backend.linear(normed, &self.gate)?;
        let up = backend.linear(normed, &self.up)?;
        let gated = backend.gated_silu(gate, &up)?;
        backend.linear(&gated, &self.down)
    }
}
