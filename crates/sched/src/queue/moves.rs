//! Tasks on the move between the queues of workers, made visible.
//!
//! A worker takes several tasks from another's queue and then adds them to its own; for an instant
//! they are in neither. An observer that looked at that instant, found nothing and went to sleep
//! would leave the mover alone with them. So each worker counts: its count is odd while it moves
//! tasks. [`Moves::any_waiting`] answers yes if a worker is moving, or if one has begun or finished
//! since the observer started to look. It may be wrong with yes for an instant, never with no.
//!
//! Why that suffices: the mover stores the odd count before it takes (release) and the even count
//! after it has added (release). An observer that sees the other's queue without the tasks has
//! acquired the odd count too, so its second look at the counts differs from the first, unless the
//! first already saw the even count; but then it also saw the mover's queue with the tasks in it.

use crate::{
    sync::{AtomicU64, CachePadded, Ordering::*},
    table::Table,
};

/// A count of moves for each worker.
#[derive(Debug)]
pub(crate) struct Moves(Table<CachePadded<AtomicU64>>);

impl Moves {
    pub(crate) fn new(workers: usize) -> Self {
        Moves(Table::of(workers, |_| CachePadded(AtomicU64::new(0))))
    }

    /// Carry out a move of tasks into the queue of `worker`. That worker only; moves do not nest.
    pub(crate) fn during<T>(&self, worker: usize, work: impl FnOnce() -> T) -> T {
        let count = &self.0[worker];
        let before = count.load(Relaxed);
        debug_assert!(before.is_multiple_of(2), "a move within a move");
        count.store(before + 1, Release);
        let result = work();
        count.store(before + 2, Release);
        result
    }

    /// Does a task wait, also one on the move? `seen` looks at the queues, with loads of acquire
    /// ordering.
    pub(crate) fn any_waiting(&self, seen: impl FnOnce() -> bool) -> bool {
        let before = self.counts();
        // The queues are loaded with acquire, so the second look comes after.
        before.1 || seen() || self.counts() != before
    }

    /// The sum of all counts, and whether one is odd. No count ever goes down, so equal sums mean
    /// equal counts.
    fn counts(&self) -> (u64, bool) {
        self.0.iter().fold((0, false), |(sum, moving), count| {
            let count = count.load(Acquire);
            (sum.wrapping_add(count), moving || count % 2 == 1)
        })
    }
}
