//! What the driver needs of a group, whatever carries it.

use std::time::Duration;

use super::error::GroupError;
use super::tag::Tag;

/// One rank's membership in a group: the collectives of a round and the leader's bell.
///
/// Every rank must call the same methods in the same order with the same tags; a difference is an
/// error on every rank, and every error is final.
pub trait Collectives {
    /// This rank's index, below [`Collectives::size`].
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Replaces each element by its minimum over all ranks. All ranks pass equally many.
    ///
    /// # Errors
    /// Any [`GroupError`] of a peer; on error `values` is unspecified and must not be used.
    fn all_reduce_min(&mut self, tag: Tag, values: &mut [u64], deadline: Duration) -> Result<(), GroupError>;

    /// Gives every rank the payload of `root`, which alone passes `Some`; at most `max` bytes.
    ///
    /// # Errors
    /// Any [`GroupError`] of a peer; `Misuse` if `payload` does not fit the root; `Oversize` above
    /// `max`.
    fn broadcast(
        &mut self,
        tag: Tag,
        root: usize,
        payload: Option<&[u8]>,
        max: usize,
        deadline: Duration,
    ) -> Result<Vec<u8>, GroupError>;

    /// Waits until rank 0 has entered its next collective (`true`) or `deadline` has passed
    /// (`false`). Rank 0 never waits for itself.
    ///
    /// # Errors
    /// Any [`GroupError`] that a peer caused in the meantime.
    fn wait_for_leader(&mut self, deadline: Duration) -> Result<bool, GroupError>;
}
