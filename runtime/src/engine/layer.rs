//! The network: its layers, each of attention and feed-forward, which are summands of the residual stream that the ranks add
//! up.

use super::activations::Activations;
use super::all_reduce::AllReduce;
use super::backend::{Backend, BackendError, Heads, Matrix, Norm};
use super::batch::ForwardError;
use super::cache::KvCache;
use super::config::{Pieces, Shard};
use super::llama::ModelError;
use super::loader::Loader;

/// All weights, this rank's part; embeddings and norms are whole on every rank.
#[derive(Debug)]
pub(super) struct Network<T> {
    /// `[context, head_dim / 2, 2]`.
    pub(super) turns: T,
    pub(super) embedding: Matrix<T>,
    pub(super) first_norm: Norm<T>,
    pub(super) layers: Vec<Layer<T>>,
    /// `[tokens, hidden]`; `None` when the whole embedding table is the output projection too.
    pub(super) head: Option<Matrix<T>>,
}

impl<T> Network<T> {
    /// Takes a batch from its tokens to its rows' next ones.
    pub(super) fn forward<B: Backend<Buffer = T>>(
        &self,
        mut pass: Pass<'_, '_, B>,
    ) -> Result<(), ForwardError> {
        let Pass { backend, batch, activations, .. } = &mut pass;
        backend.embed(&mut activations.hidden, &self.embedding, batch)?;
        backend.norm(&mut activations.normed, &activations.hidden, &self.first_norm)?;
        for (index, layer) in self.layers.iter().enumerate() {
            layer.apply(index, &mut pass)?;
        }
        let Pass { backend, batch, shard, group, activations, choice, .. } = pass;
        let Activations { normed, last, logits, .. } = activations;
        backend.last_positions(last, normed, self.embedding.columns, batch)?;
        backend.linear(logits, last, self.head.as_ref().unwrap_or(&self.embedding))?;
        backend.choose(choice, logits, shard, batch, group)
    }
}

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
    pub(super) batch: &'a B::Batch<'rows>,
    pub(super) cache: &'a mut KvCache<B::Buffer>,
    pub(super) turns: &'a B::Buffer,
    pub(super) shard: Shard,
    pub(super) group: &'a mut dyn AllReduce,
    pub(super) activations: &'a mut Activations<B>,
    /// Of the rows' tokens.
    pub(super) choice: &'a mut B::Choice,
}

impl<B: Backend> Pass<'_, '_, B> {
    /// Adds the summand to the residual stream, summed over the group first, and normalises.
    fn add(&mut self, norm: &Norm<B::Buffer>) -> Result<(), ForwardError> {
        let Activations { hidden, normed, summand, .. } = &mut *self.activations;
        self.backend.all_reduce_sum(summand, self.group)?;
        Ok(self.backend.add_norm(normed, hidden, summand, norm)?)
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
        self.attention.apply(index, pass)?;
        pass.add(&self.middle_norm)?;
        self.feed_forward.apply(pass)?;
        pass.add(&self.end_norm)
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

    /// Computes this rank's summand.
    fn apply<B: Backend<Buffer = T>>(
        &self,
        layer: usize,
        pass: &mut Pass<'_, '_, B>,
    ) -> Result<(), BackendError> {
        let Pass { backend, batch, cache, turns, activations, .. } = pass;
        let Activations { normed, queries, keys, values, attended, summand, .. } = &mut **activations;
        backend.linear(queries, normed, &self.query)?;
        backend.linear(keys, normed, &self.key)?;
        backend.linear(values, normed, &self.value)?;
        backend.attend(attended, Heads { queries, keys, values, turns, layer }, batch, cache)?;
        backend.linear(summand, attended, &self.output)
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

    /// Computes this rank's summand: `down(silu(gate(x)) * up(x))`.
    fn apply<B: Backend<Buffer = T>>(&self, pass: &mut Pass<'_, '_, B>) -> Result<(), BackendError> {
        let Pass { backend, activations: Activations { normed, gate, up, gated, summand, .. }, .. } = pass;
        backend.linear(gate, normed, &self.gate)?;
        backend.linear(up, normed, &self.up)?;
        backend.gated_silu(gated, gate, up)?;
        backend.linear(summand, gated, &self.down)
    }
}
