//! The collectives of the forward pass, as the engine sees them; transports implement them.
//!
//! The engine enters a sum twice a layer, and a minimum at the end. Every rank must enter the same calls in the same order with the same length.

use std::error::Error;

use super::config::Shard;

/// A group of ranks that can combine vectors.
pub trait AllReduce {
    /// This rank's place in the group, `0..size`.
    fn rank(&self) -> usize;

    /// Number of ranks in the group.
    fn size(&self) -> usize;

    /// Replaces `data` by its sum over the ranks, added in rank order `0..size`, so that the result is the same bits
    /// on every rank.
    ///
    /// # Errors
    /// When a peer is gone, sent another length, or missed the transport's deadline. `data` is then unspecified.
    fn all_reduce_sum(&mut self, data: &mut [f32]) -> Result<(), CollectiveError>;

    /// Replaces each of `bids` by the least of all ranks'.
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    fn all_reduce_min(&mut self, bids: &mut [u64]) -> Result<(), CollectiveError>;
}

/// A transport's own error, carried through the forward pass unchanged.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CollectiveError(Box<dyn Error + Send + Sync>);

impl CollectiveError {
    /// Wraps a transport's error.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }

    /// The transport's error, to be downcast by whoever knows the transport.
    #[must_use]
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

/// The group of one rank: what it has is already combined.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl AllReduce for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_reduce_sum(&mut self, _data: &mut [f32]) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn all_reduce_min(&mut self, _bids: &mut [u64]) -> Result<(), CollectiveError> {
        Ok(())
    }
}

/// A rank's group whose parts meet on the devices: nothing of them comes to the hosts.
#[derive(Clone, Copy, Debug)]
pub struct OnDevices(
    /// The rank's part.
    pub Shard,
);

impl AllReduce for OnDevices {
    fn rank(&self) -> usize {
        self.0.rank
    }

    fn size(&self) -> usize {
        self.0.size
    }

    fn all_reduce_sum(&mut self, _: &mut [f32]) -> Result<(), CollectiveError> {
        Err(CollectiveError::new("sums that meet between the hosts cannot be captured"))
    }

    fn all_reduce_min(&mut self, _: &mut [u64]) -> Result<(), CollectiveError> {
        Err(CollectiveError::new("choices that meet between the hosts cannot be captured"))
    }
}
