//! The threads of one rank: they share out the elements of an output, so that no bit depends on their number.

use rayon::ThreadPool;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::engine::backend::BackendError;

/// Multiplications for which waking a thread is worth its while: some tens of microseconds of work.
const WORTH_SHARING: usize = 1 << 18;
/// Parts that each thread gets, so that one which is held up can leave some to the others.
const PARTS: usize = 4;

/// The caller's thread, or a pool of several.
#[derive(Debug, Default)]
pub(super) struct Threads(Option<ThreadPool>);

impl Threads {
    /// As many threads.
    ///
    /// # Errors
    /// If the system starts none.
    pub(super) fn new(count: usize) -> Result<Self, BackendError> {
        let name = |thread| format!("engine {thread}");
        let pool = || rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(name).build();
        Ok(Self((count > 1).then(pool).transpose().map_err(BackendError::new)?))
    }

    /// Items of a part, a multiple of `multiple`, when `items` are to be shared out.
    pub(super) fn part(&self, items: usize, multiple: usize) -> usize {
        let parts = self.0.as_ref().map_or(1, |pool| pool.current_num_threads() * PARTS);
        items.div_ceil(parts).next_multiple_of(multiple)
    }

    /// Has `work` fill `output`, part by part: it gets a part's index and its elements, `length` but in the last one.
    pub(super) fn fill(
        &self,
        output: &mut [f32],
        length: usize,
        multiplications: usize,
        work: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        match &self.0 {
            Some(pool) if multiplications >= WORTH_SHARING => pool.install(|| {
                output.par_chunks_mut(length).enumerate().for_each(|(index, part)| work(index, part));
            }),
            Some(_) | None => {
                output.chunks_mut(length).enumerate().for_each(|(index, part)| work(index, part));
            }
        }
    }
}
