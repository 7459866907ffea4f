//! One [`LocalQueue`] for each worker, and stealing between them.
//!
//! [`any_waiting`](WorkerQueues::any_waiting) sees tasks that are being stolen too (`moves`).

use super::{Links, LocalQueue, RING_CAPACITY};
use crate::{
    Task,
    queue::moves::Moves,
    sync::{AtomicU32, CachePadded, Ordering::*},
    table::Table,
};

/// One FIFO queue for each worker; a worker without work steals half of another's. See the
/// [module](super) rules.
#[derive(Debug)]
pub struct WorkerQueues<const N: usize = RING_CAPACITY> {
    workers: Table<CachePadded<Worker<N>>>,
    moves: Moves,
}

#[derive(Debug)]
struct Worker<const N: usize> {
    queue: LocalQueue<N>,
    /// State of the worker's xorshift generator, for the order in which it visits victims.
    random: AtomicU32,
}

impl<const N: usize> WorkerQueues<N> {
    /// Empty queues for the workers `0..workers`. The order of victims is random but the same in
    /// every run.
    ///
    /// # Panics
    ///
    /// If `workers` is 0.
    pub fn new(workers: usize) -> Self {
        assert!(workers > 0, "there must be at least one worker");
        let new = |index: usize| Worker {
            queue: LocalQueue::new(),
            // Never 0, the fixed point of xorshift: an odd multiple of an odd number is odd.
            random: AtomicU32::new((2 * index as u32 + 1).wrapping_mul(0x9e37_79b9)),
        };
        let queues = Table::of(workers, |index| CachePadded(new(index)));
        WorkerQueues { workers: queues, moves: Moves::new(workers) }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The worker's own queue.
    #[inline]
    pub(crate) fn own(&self, worker: usize) -> &LocalQueue<N> {
        &self.workers[worker].queue
    }

    /// Add a task at the tail of the worker's own queue. That worker only.
    #[inline]
    pub fn push(&self, worker: usize, links: &Links, task: Task) {
        self.workers[worker].queue.push(links, task);
    }

    /// Take the oldest task of the worker's own queue. That worker only.
    #[inline]
    pub fn pop(&self, worker: usize, links: &Links) -> Option<Task> {
        let queue = &self.workers[worker].queue;
        // Who is the only worker has no thieves.
        if self.workers.len() == 1 { queue.pop_alone(links) } else { queue.pop(links) }
    }

    /// The oldest task of the worker's own queue, without taking it; a thief may take it at any
    /// moment. That worker only.
    pub fn peek(&self, worker: usize, links: &Links) -> Option<Task> {
        self.workers[worker].queue.peek(links)
    }

    /// Visit all other workers, beginning with a random one; take the older half of the first queue
    /// that has tasks, return the oldest and keep the others in `worker`'s own queue, which should
    /// be empty. That worker only.
    pub fn steal(&self, worker: usize, links: &Links) -> Option<Task> {
        self.victims(worker).find_map(|victim| self.steal_from(victim, worker, links))
    }

    /// All other workers, beginning with a random one. That worker only.
    pub(crate) fn victims(&self, worker: usize) -> impl Iterator<Item = usize> {
        let count = self.workers.len();
        let start = self.workers[worker].random(count);
        (start..count).chain(0..start).filter(move |&victim| victim != worker)
    }

    /// As [`steal`](WorkerQueues::steal), from this victim only.
    pub(crate) fn steal_from(&self, victim: usize, worker: usize, links: &Links) -> Option<Task> {
        let (thief, victim) = (&self.workers[worker].queue, &self.workers[victim].queue);
        if victim.is_empty() {
            return None;
        }
        self.moves.during(worker, || victim.steal_into(links, thief))
    }

    /// If another worker has more tasks than `worker` by more than one, take half of what it has
    /// more, the oldest first, to the tail of the own queue. Each other worker is taken to run one
    /// task beside those in its queue, `worker` to have `running` beside them. That worker only.
    pub fn even_out(&self, worker: usize, links: &Links, running: usize) {
        let others = (0..self.workers.len()).filter(|&other| other != worker);
        let Some(most) = others.max_by_key(|&other| self.len(other)) else { return };
        let half = (self.len(most) + 1).saturating_sub(self.len(worker) + running) / 2;
        if half == 0 {
            return;
        }
        let (mine, theirs) = (&self.workers[worker].queue, &self.workers[most].queue);
        self.moves.during(worker, || {
            let oldest = core::iter::from_fn(|| theirs.steal_one(links));
            oldest.take(half).for_each(|task| mine.push(links, task));
        });
    }

    /// Take the tasks that wait in the queue of `worker`, the oldest first, and give each to
    /// `keep`, which puts it elsewhere. Returns how many. From anywhere; what is added meanwhile
    /// stays.
    pub fn move_all(&self, worker: usize, links: &Links, keep: impl FnMut(Task)) -> usize {
        let queue = &self.workers[worker].queue;
        let oldest = core::iter::from_fn(|| queue.steal_one(links));
        oldest.take(queue.len()).map(keep).count()
    }

    /// How many tasks wait in the worker's own queue. From anywhere.
    pub fn len(&self, worker: usize) -> usize {
        self.workers[worker].queue.len()
    }

    /// Is the worker's own queue empty? From anywhere. Tasks that the worker is just stealing are
    /// not seen.
    pub fn is_empty(&self, worker: usize) -> bool {
        self.workers[worker].queue.is_empty()
    }

    /// How many tasks wait in all queues; approximate while workers run.
    pub fn total(&self) -> usize {
        self.workers.iter().map(|w| w.queue.len()).sum()
    }

    /// Does a task wait in any queue? From anywhere. A task that was added before the call and not
    /// taken to be run is seen, even while it is being stolen; see the module documentation.
    pub fn any_waiting(&self) -> bool {
        self.moves.any_waiting(|| self.workers.iter().any(|w| !w.queue.is_empty()))
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
