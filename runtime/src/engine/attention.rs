//! Attention of one layer over the paged cache, for this rank's heads.
//!
//! First all positions of the batch write their keys and values, then each position reads its row's history in
//! position order. So prefill, chunked prefill and decode do the same arithmetic for a position.

use super::batch::Place;
use super::cache::KvCache;
use super::config::{Config, Shard};
use super::kernels::{Linear, add_scaled, dot, softmax};
use super::rope::Turns;
use super::weights::{Checkpoint, WeightsError};

/// One layer's attention weights, this rank's heads.
#[derive(Debug)]
pub(super) struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
}

/// What attention needs to know of the batch.
pub(super) struct Context<'a> {
    /// Index of the layer.
    pub(super) layer: usize,
    /// Positions of the batch.
    pub(super) places: &'a [Place<'a>],
    /// Their rotary turns.
    pub(super) turns: &'a Turns,
}

impl Attention {
    /// Reads the weights under `prefix`, `model.layers.N`.
    pub(super) fn load(
        checkpoint: &Checkpoint,
        prefix: &str,
        config: &Config,
        shard: Shard,
    ) -> Result<Self, WeightsError> {
        let hidden = config.hidden;
        let name = |part: &str| format!("{prefix}.self_attn.{part}_proj.weight");
        let rows = |part, heads: usize| {
            let shape = [heads * config.head_dim, hidden];
            checkpoint.rows(&name(part), shape, shard).map(|weight| Linear::new(weight, hidden))
        };
        let shape = [hidden, config.heads * config.head_dim];
        let output = checkpoint.columns(&name("o"), shape, shard)?;
        Ok(Self {
            query: rows("q", config.heads)?,
            key: rows("k", config.kv_heads)?,
            value: rows("v", config.kv_heads)?,
            output: Linear::new(output, shard.heads * config.head_dim),
            heads: shard.heads,
            kv_heads: shard.kv_heads,
            head_dim: config.head_dim,
        })
    }

    /// This rank's summand of the layer's attention, `[positions, hidden]`, from the normalised input of that shape.
    pub(super) fn apply(&self, input: &[f32], context: &Context<'_>, cache: &mut KvCache) -> Vec<f32> {
        let mut queries = self.query.apply(input);
        context.turns.apply(&mut queries, self.heads * self.head_dim);
        self.remember(input, context, cache);
        self.output.apply(&self.attend(&queries, context, cache))
    }

    fn remember(&self, input: &[f32], context: &Context<'_>, cache: &mut KvCache) {
        let width = self.kv_heads * self.head_dim;
        let mut keys = self.key.apply(input);
        context.turns.apply(&mut keys, width);
        let values = self.value.apply(input);
        let pairs = keys.chunks_exact(width).zip(values.chunks_exact(width));
        for (place, (keys, values)) in context.places.iter().zip(pairs) {
            cache.write(context.layer, place.slot, keys, values);
        }
    }

    fn attend(&self, queries: &[f32], context: &Context<'_>, cache: &KvCache) -> Vec<f32> {
        let mut attended = vec![0.0; queries.len()];
        let mut scores = Vec::new();
        let heads_per_place = context
            .places
            .iter()
            .flat_map(|place| (0..self.heads).map(move |head| (place, head * self.kv_heads / self.heads)));
        let heads = queries.chunks_exact(self.head_dim).zip(attended.chunks_exact_mut(self.head_dim));
        for ((place, kv_head), (query, target)) in heads_per_place.zip(heads) {
            let history = History { cache, place, layer: context.layer, kv_head };
            history.score(query, &mut scores);
            history.mix(&scores, target);
        }
        attended
    }
}

/// Keys and values of one head that one position attends to.
struct History<'a> {
    cache: &'a KvCache,
    place: &'a Place<'a>,
    layer: usize,
    kv_head: usize,
}

impl History<'_> {
    /// Replaces `scores` by the softmax of the scaled products of `query` with the keys.
    #[expect(clippy::cast_precision_loss, reason = "head_dim is far below 2^24")]
    fn score(&self, query: &[f32], scores: &mut Vec<f32>) {
        let scale = 1.0 / (query.len() as f32).sqrt();
        let keys = self.heads(query.len(), KvCache::keys);
        scores.clear();
        scores.extend(keys.map(|key| dot(query, key) * scale));
        softmax(scores);
    }

    /// Adds the values to `target`, each times its score.
    fn mix(&self, scores: &[f32], target: &mut [f32]) {
        let values = self.heads(target.len(), KvCache::values);
        scores.iter().zip(values).for_each(|(score, value)| add_scaled(target, *score, value));
    }

    /// The head's elements of every position up to the place's own, in position order.
    fn heads(
        &self,
        head_dim: usize,
        block: fn(&KvCache, usize, usize) -> &[f32],
    ) -> impl Iterator<Item = &[f32]> {
        let page_size = self.cache.page_size();
        self.place.history(page_size).flat_map(move |(page, used)| {
            let elements = block(self.cache, self.layer, page);
            let positions = elements.chunks_exact(elements.len() / page_size).take(used);
            positions.map(move |position| &position[self.kv_head * head_dim..][..head_dim])
        })
    }
}
