//! Work on several things at once that comes out in their order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

/// Does `work` on the items in as many threads, beginning none once `ended` says so, and hands what comes of it to `take`, in the order of
/// the items.
///
/// # Errors
/// The first error of `take`, after which nothing more is begun.
pub(super) fn side_by_side<T: Sync, R: Send, E>(
    items: &[T],
    threads: usize,
    ended: &(impl Fn() -> bool + Sync),
    work: &(impl Fn(&T) -> R + Sync),
    take: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        // What is done is taken before its thread begins more.
        let (sender, done) = sync_channel(0);
        for _ in 0..threads.min(items.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while !ended() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    // Nobody listens any more after an error.
                    let Some(item) = items.get(index) else { return };
                    if sender.send((index, work(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        for (index, result) in done {
            early.insert(index, result);
            while let Some(result) = early.remove(&due) {
                take(result)?;
                due += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::side_by_side;
    use std::convert::Infallible;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn side_by_side_results_come_in_order_whoever_is_first() {
        let meeting = Barrier::new(2);
        let work = |item: &u32| {
            if *item < 2 {
                meeting.wait();
            }
            *item * 10
        };
        let mut taken = Vec::new();
        let mut take = |result| {
            taken.push(result);
            Ok::<_, Infallible>(())
        };
        side_by_side(&[0, 1, 2, 3, 4], 2, &|| false, &work, &mut take).unwrap();
        assert_eq!(taken, [0, 10, 20, 30, 40]);
    }

    #[test]
    fn side_by_side_begins_nothing_after_an_error_or_an_end() {
        let begun = AtomicU32::new(0);
        let work = |item: &u32| {
            begun.fetch_add(1, Ordering::Relaxed);
            *item
        };
        let failed = side_by_side(&[7; 100], 1, &|| false, &work, &mut Err::<(), u32>);
        assert_eq!(failed, Err(7));
        assert!(begun.load(Ordering::Relaxed) <= 2, "one that fails, and one that was begun before it did");
        let ended = || begun.load(Ordering::Relaxed) > 0;
        let mut none = |_| Err(9);
        assert_eq!(side_by_side(&[7; 100], 1, &ended, &work, &mut none), Ok(()));
    }
}
