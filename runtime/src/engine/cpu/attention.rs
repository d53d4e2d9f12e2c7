//! Attention of one layer over the paged cache, for this rank's heads.
//!
//! First all positions of the batch write their keys and values, then each position reads its row's history in
//! position order. So prefill, chunked prefill and decode do the same arithmetic for a position.

use super::arithmetic::{add_scaled, dot, softmax};
use crate::engine::backend::Heads;
use crate::engine::batch::{Batch, Place};
use crate::engine::cache::KvCache;

/// What the queries attend to, `[positions, heads, head_dim]`.
pub(super) fn attend(heads: Heads<'_, Vec<f32>>, batch: &Batch<'_>, cache: &mut KvCache) -> Vec<f32> {
    let Heads { mut queries, mut keys, values, turns, layer } = heads;
    let head_dim = cache.shape().head_dim;
    turn(&mut queries, turns, batch, head_dim);
    turn(&mut keys, turns, batch, head_dim);
    remember([&keys, &values], layer, batch, cache);
    history(&queries, layer, batch, cache)
}

/// Turns every head of `[positions, any heads, head_dim]` by its position, in place: elements `i` and
/// `i + head_dim / 2` of a head together.
fn turn(heads: &mut [f32], turns: &[f32], batch: &Batch<'_>, head_dim: usize) {
    let width = heads.len() / batch.places.len().max(1);
    for (place, position) in batch.places.iter().zip(heads.chunks_exact_mut(width.max(1))) {
        let (turns, _) = turns[place.position * head_dim..][..head_dim].as_chunks();
        position.chunks_exact_mut(head_dim).for_each(|head| turn_one(head, turns));
    }
}

fn turn_one(head: &mut [f32], turns: &[[f32; 2]]) {
    let (first, second) = head.split_at_mut(turns.len());
    for ((a, b), [cosine, sine]) in first.iter_mut().zip(second).zip(turns) {
        (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
    }
}

fn remember([keys, values]: [&[f32]; 2], layer: usize, batch: &Batch<'_>, cache: &mut KvCache) {
    let width = cache.shape().width();
    let pairs = keys.chunks_exact(width).zip(values.chunks_exact(width));
    for (place, (keys, values)) in batch.places.iter().zip(pairs) {
        cache.write(layer, place.slot, keys, values);
    }
}

fn history(queries: &[f32], layer: usize, batch: &Batch<'_>, cache: &KvCache) -> Vec<f32> {
    let (heads, kv_heads, head_dim) = (batch.heads, cache.shape().kv_heads, cache.shape().head_dim);
    let mut attended = vec![0.0; queries.len()];
    let mut scores = Vec::new();
    let of_place = |place| (0..heads).map(move |head| (place, head * kv_heads / heads));
    let vectors = queries.chunks_exact(head_dim).zip(attended.chunks_exact_mut(head_dim));
    for ((place, kv_head), (query, target)) in batch.places.iter().flat_map(of_place).zip(vectors) {
        let history = History { cache, batch, place, layer, kv_head };
        history.score(query, &mut scores);
        history.mix(&scores, target);
    }
    attended
}

/// Keys and values of one head that one position attends to.
struct History<'a> {
    cache: &'a KvCache,
    batch: &'a Batch<'a>,
    place: &'a Place,
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
        self.batch.history(self.place).flat_map(move |(page, used)| {
            let elements = block(self.cache, self.layer, page);
            let positions = elements.chunks_exact(elements.len() / page_size).take(used);
            positions.map(move |position| &position[self.kv_head * head_dim..][..head_dim])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::turn_one;

    #[test]
    fn rope_quarter_turn_moves_first_half_into_second() {
        let mut head = [1.0, 2.0, 3.0, 4.0];
        turn_one(&mut head, &[[0.0, 1.0], [1.0, 0.0]]);
        assert_eq!(head, [-3.0, 2.0, 1.0, 4.0]);
    }
}
