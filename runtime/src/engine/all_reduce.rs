//! The one collective of the forward pass, as the engine sees it; transports implement it.
//!
//! The engine enters it twice a layer. Every rank must enter the same calls in the same order with the same length.

use std::error::Error;

/// A group of ranks that can add a vector up.
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

/// The group of one rank: its sums are already complete.
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
}
