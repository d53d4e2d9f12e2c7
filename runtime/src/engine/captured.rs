//! Decode forwards that a device has captured: for a few sizes of batch, each with memory of its own.
//!
//! ```text
//!  batch of n rows, one position each ──▶ the smallest that holds n ──▶ refill its numbers ──▶ replay ──▶ its tokens
//! ```
//! A replay computes with what its buffers hold: tokens, positions, page lists and draws are overwritten before it. Rows beyond
//! the batch have no page, so they write nothing to the cache; what they compute is not looked at.
//!
//! Which sizes there are follows from the group's configuration, and which is replayed from the batch: all ranks replay
//! the same, with the same collectives in it.

use super::activations::Activations;
use super::all_reduce::{AllReduce, Alone, OnDevices};
use super::backend::Backend;
use super::batch::{Batch, ForwardError};
use super::cache::KvCache;
use super::config::{Config, Shard};
use super::layer::{Network, Pass};

/// A forward of rows of one position each, captured.
#[derive(Debug)]
pub(super) struct Captured<B: Backend> {
    // Before the buffers that it names.
    graph: B::Graph,
    pub(super) batch: B::Batch<'static>,
    pub(super) activations: Activations<B>,
    rows: usize,
    /// The cache that it is captured with.
    cache: u64,
}

impl<B: Backend> Captured<B> {
    /// Captures a forward of so many rows, and gives where it chooses their tokens. Enters no collective.
    pub(super) fn new(
        rows: usize,
        backend: &mut B,
        network: &Network<B::Buffer>,
        (config, shard): (&Config, Shard),
        cache: &mut KvCache<B::Buffer>,
    ) -> Result<(Self, B::Choice), ForwardError> {
        let list_length = config.context.div_ceil(cache.page_size());
        let mut batch = backend.blank([rows, list_length], *cache.shape(), shard.heads)?;
        let mut activations = Activations::new(backend, (config, shard), [rows, rows])?;
        let mut choice = backend.choice(rows)?;
        // A kernel is loaded by its first run, which may take memory. What these compute is nobody's.
        backend.follow(&mut batch, &choice, &[])?;
        let mut forward = |backend: &mut B, group: &mut dyn AllReduce| {
            network.forward(Pass {
                backend,
                batch: &batch,
                cache: &mut *cache,
                turns: &network.turns,
                shard,
                group,
                activations: &mut activations,
                choice: &mut choice,
            })
        };
        forward(backend, &mut Alone)?;
        let graph = backend.capture(|backend| forward(backend, &mut OnDevices(shard)))?;
        let cache = cache.number();
        Ok((Self { graph, batch, activations, rows, cache }, choice))
    }

    /// Whether it computes what `batch` asks for.
    pub(super) fn fits(&self, batch: &Batch<'_>, cache: &KvCache<B::Buffer>) -> bool {
        let rows = batch.rows.len();
        batch.places.len() == rows && rows <= self.rows && cache.number() == self.cache
    }

    /// Computes what its batch says.
    pub(super) fn replay(&self, backend: &mut B) -> Result<(), ForwardError> {
        backend.replay(&self.graph)
    }
}

/// Sizes of batches to capture, ascending: powers of two, and the largest.
pub(super) fn sizes(largest: usize) -> impl Iterator<Item = usize> {
    let doubled = std::iter::successors(Some(1), |size: &usize| size.checked_mul(2));
    doubled.take_while(move |&size| size < largest).chain((largest > 0).then_some(largest))
}

#[cfg(test)]
mod tests {
    use super::sizes;

    #[test]
    fn captured_sizes_are_powers_of_two_and_the_largest() {
        let all = |largest| sizes(largest).collect::<Vec<_>>();
        assert_eq!(all(1), [1]);
        assert_eq!(all(8), [1, 2, 4, 8]);
        assert_eq!(all(11), [1, 2, 4, 8, 11]);
        assert!(all(0).is_empty());
    }
}
