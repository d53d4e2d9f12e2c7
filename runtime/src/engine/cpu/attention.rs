//! Attention of one layer over the paged cache, for this rank's heads.
//!
//! First all positions of the batch write their keys and values, then each position reads its row's history in
//! position order. So prefill, chunked prefill and decode do the same arithmetic for a position.

use lockstep_kernels::wide::{Lanes, Work, on_widest_vectors};

use super::arithmetic::{add_scaled, dot, softmax};
use super::threads::Threads;
use crate::engine::backend::Heads;
use crate::engine::batch::{Batch, Place};
use crate::engine::cache::KvCache;

/// What the queries attend to, `[positions, heads, head_dim]`.
pub(super) fn attend(
    attended: &mut Vec<f32>,
    heads: Heads<'_, Vec<f32>>,
    (batch, cache): (&Batch<'_>, &mut KvCache),
    threads: &Threads,
) {
    let Heads { queries, keys, values, turns, layer } = heads;
    let head_dim = cache.shape().head_dim;
    turn(queries, turns, batch, head_dim);
    turn(keys, turns, batch, head_dim);
    remember([keys, values], layer, batch, cache);
    let width = batch.heads * head_dim;
    let seen: usize = batch.places.iter().map(|place| place.position + 1).sum();
    attended.clear();
    attended.resize(queries.len(), 0.0);
    threads.fill(attended, width, 2 * seen * width, |index, target| {
        let position = Position { cache, batch, place: &batch.places[index], layer };
        on_widest_vectors(Attend { position, queries: &queries[index * width..][..width], target });
    });
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

/// Adds what the queries of a position attend to, `[heads, head_dim]`, to `target`.
struct Attend<'a> {
    position: Position<'a>,
    queries: &'a [f32],
    target: &'a mut [f32],
}

impl Work for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self) {
        let Self { position, queries, target } = self;
        let (heads, shape) = (position.batch.heads, position.cache.shape());
        let mut scores = Vec::with_capacity(position.place.position + 1);
        let heads_of_query =
            queries.chunks_exact(shape.head_dim).zip(target.chunks_exact_mut(shape.head_dim));
        for (head, (query, target)) in heads_of_query.enumerate() {
            let kv_head = head * shape.kv_heads / heads;
            position.score::<V>(kv_head, query, &mut scores);
            let values = position.history(kv_head, shape.head_dim, KvCache::values);
            scores.iter().zip(values).for_each(|(score, value)| add_scaled(target, *score, value));
        }
    }
}

/// One position of the batch, which sees its row up to itself.
struct Position<'a> {
    cache: &'a KvCache,
    batch: &'a Batch<'a>,
    place: &'a Place,
    layer: usize,
}

impl Position<'_> {
    /// Replaces `scores` by the softmax of the scaled products of `query` with the keys.
    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "head_dim is far below 2^24")]
    fn score<V: Lanes>(&self, kv_head: usize, query: &[f32], scores: &mut Vec<f32>) {
        let scale = 1.0 / (query.len() as f32).sqrt();
        let keys = self.history(kv_head, query.len(), KvCache::keys);
        scores.clear();
        scores.extend(keys.map(|key| dot::<V>(query, key) * scale));
        softmax(scores);
    }

    /// A head's elements of every position up to this one, in position order.
    #[inline(always)]
    fn history(
        &self,
        kv_head: usize,
        head_dim: usize,
        block: fn(&KvCache, usize, usize) -> &[f32],
    ) -> impl Iterator<Item = &[f32]> {
        let page_size = self.cache.page_size();
        self.batch.history(self.place).flat_map(move |(page, used)| {
            let elements = block(self.cache, self.layer, page);
            let positions = elements.chunks_exact(elements.len() / page_size).take(used);
            positions.map(move |position| &position[kv_head * head_dim..][..head_dim])
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
