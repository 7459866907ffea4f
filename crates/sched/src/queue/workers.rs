//! One [`LocalQueue`] for each worker, and stealing between them.
//!
//! # Tasks on the move
//!
//! A thief takes several tasks from its victim and then adds them to its own queue; for an instant they are in neither.
//! An observer that looked at that instant, found nothing and went to sleep would leave the thief alone with them. So
//! each worker counts: its `moves` is odd while it steals. [`any_waiting`](WorkerQueues::any_waiting) answers yes if a
//! worker is stealing, or if one has begun or finished since it started to look. It may be wrong with yes for an
//! instant, never with no.
//!
//! Why that suffices: the thief stores the odd count before it takes (release) and the even count after it has added
//! (release). An observer that sees the victim's queue without the tasks has acquired the odd count too, so its second
//! look at the counts differs from the first, unless the first already saw the even count; but then it also saw the
//! thief's queue with the tasks in it.

use alloc::boxed::Box;

use super::{Links, LocalQueue, RING_CAPACITY};
use crate::{
    Task,
    sync::{AtomicU32, AtomicU64, CachePadded, Ordering::*},
};

/// One FIFO queue for each worker; a worker without work steals half of another's. See the [module](super) rules.
#[derive(Debug)]
pub struct WorkerQueues<const N: usize = RING_CAPACITY> {
    workers: Box<[CachePadded<Worker<N>>]>,
}

#[derive(Debug)]
struct Worker<const N: usize> {
    queue: LocalQueue<N>,
    /// Odd while this worker steals; written by it alone.
    moves: AtomicU64,
    /// State of the worker's xorshift generator, for the order in which it visits victims.
    random: AtomicU32,
}

impl<const N: usize> WorkerQueues<N> {
    /// Empty queues for the workers `0..workers`. The order of victims is random but the same in every run.
    ///
    /// # Panics
    ///
    /// If `workers` is 0.
    pub fn new(workers: usize) -> Self {
        assert!(workers > 0, "there must be at least one worker");
        let new = |index: usize| Worker {
            queue: LocalQueue::new(),
            moves: AtomicU64::new(0),
            // Never 0, the fixed point of xorshift: an odd multiple of an odd number is odd.
            random: AtomicU32::new((2 * index as u32 + 1).wrapping_mul(0x9e37_79b9)),
        };
        WorkerQueues { workers: (0..workers).map(|index| CachePadded(new(index))).collect() }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Add a task at the tail of the worker's own queue. That worker only.
    pub fn push(&self, worker: usize, links: &Links, task: Task) {
        self.workers[worker].queue.push(links, task);
    }

    /// Take the oldest task of the worker's own queue. That worker only.
    pub fn pop(&self, worker: usize, links: &Links) -> Option<Task> {
        self.workers[worker].queue.pop(links)
    }

    /// The oldest task of the worker's own queue, without taking it; a thief may take it at any moment. That worker only.
    pub fn peek(&self, worker: usize, links: &Links) -> Option<Task> {
        self.workers[worker].queue.peek(links)
    }

    /// Visit all other workers, beginning with a random one; take the older half of the first queue that has tasks,
    /// return the oldest and keep the others in `worker`'s own queue, which should be empty. That worker only.
    pub fn steal(&self, worker: usize, links: &Links) -> Option<Task> {
        let thief = &self.workers[worker];
        let count = self.workers.len();
        let start = thief.random(count);
        let victims = (start..count).chain(0..start).filter(|&v| v != worker);
        for victim in victims {
            let victim = &self.workers[victim].queue;
            if victim.is_empty() {
                continue;
            }
            let moves = thief.moves.load(Relaxed);
            thief.moves.store(moves + 1, Release);
            let stolen = victim.steal_into(links, &thief.queue);
            thief.moves.store(moves + 2, Release);
            if stolen.is_some() {
                return stolen;
            }
        }
        None
    }

    /// How many tasks wait in the worker's own queue. From anywhere.
    pub fn len(&self, worker: usize) -> usize {
        self.workers[worker].queue.len()
    }

    /// Is the worker's own queue empty? From anywhere. Tasks that the worker is just stealing are not seen.
    pub fn is_empty(&self, worker: usize) -> bool {
        self.workers[worker].queue.is_empty()
    }

    /// How many tasks wait in all queues; approximate while workers run.
    pub fn total(&self) -> usize {
        self.workers.iter().map(|w| w.queue.len()).sum()
    }

    /// Does a task wait in any queue? From anywhere. A task that was added before the call and not taken to be run is
    /// seen, even while it is being stolen; see the module documentation.
    pub fn any_waiting(&self) -> bool {
        let before = self.moves();
        if before.1 || self.workers.iter().any(|w| !w.queue.is_empty()) {
            return true;
        }
        // The queues were loaded with acquire, so these loads come after.
        self.moves() != before
    }

    /// The sum of all counts, and whether one is odd. No count ever goes down, so equal sums mean equal counts.
    fn moves(&self) -> (u64, bool) {
        self.workers.iter().fold((0, false), |(sum, moving), w| {
            let count = w.moves.load(Acquire);
            (sum.wrapping_add(count), moving || count % 2 == 1)
        })
    }
}

impl<const N: usize> Worker<N> {
    /// A number below `bound`. Owner only.
    fn random(&self, bound: usize) -> usize {
        let mut x = self.random.load(Relaxed);
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.store(x, Relaxed);
        ((u64::from(x) * bound as u64) >> 32) as usize
    }
}
