//! When a worker that has work looks whether others have more.
//!
//! A worker without work steals. But as long as each has something to do, nobody steals, and eight
//! equal tasks on two workers could stay where they are, one and seven, for ever. So from time to
//! time, every fifty quanta, a worker compares what it has with what the others have, running tasks
//! included, and takes half of the difference from the one with most, if they differ by more than
//! one. Where tasks have weights, weights are compared.
//!
//! It looks when it chooses the next task. A worker whose only task runs undisturbed does not
//! choose: so two tasks that wait elsewhere are a reason to stop that task, at the time of the next
//! look and not before its quantum is over. One of two workers that look for the same tasks may do
//! so in vain, which is why it is seldom.

use crate::{
    Running, Task, Time,
    sync::{AtomicU32, AtomicU64, AtomicUsize, CachePadded, Ordering::Relaxed},
    table::Table,
};

/// Quanta between two looks.
const EVERY: Time = 50;

/// The looks of all workers.
#[derive(Debug)]
pub(super) struct Looks(Table<CachePadded<Look>>);

/// Written by its worker alone.
#[derive(Debug)]
struct Look {
    /// 0: it has not begun to count.
    next: AtomicU64,
    /// The number plus one of what was dispatched last and is in no queue; 0: none. The host may
    /// choose a task's successor before it queues the task again.
    running: AtomicU32,
    /// The other worker that was looked at last, from anywhere, to find one with more.
    watched: AtomicUsize,
}

impl Looks {
    pub(super) fn new(workers: usize) -> Self {
        // Who is alone never looks.
        let first = if workers == 1 { Time::MAX } else { 0 };
        let look = || Look {
            next: AtomicU64::new(first),
            running: AtomicU32::new(0),
            watched: AtomicUsize::new(0),
        };
        Looks(Table::of(workers, |_| CachePadded(look())))
    }

    /// Is it time for `worker` to look? Then it does, and the next time is later. That worker only.
    pub(super) fn is_due(&self, worker: usize, now: Time, quantum: Option<Time>) -> bool {
        let next = &self.0[worker].next;
        let at = next.load(Relaxed);
        let Some(quantum) = quantum.filter(|_| now >= at) else { return false };
        next.store(now.saturating_add(quantum.saturating_mul(EVERY)).max(1), Relaxed);
        at != 0
    }

    /// When `worker` stops `running` in order to look.
    pub(super) fn stop_at(&self, worker: usize, running: &Running, quantum: Time) -> Time {
        running.since.saturating_add(quantum).max(self.0[worker].next.load(Relaxed))
    }

    /// `worker` has chosen a task, or found none. That worker only.
    pub(super) fn chosen(&self, worker: usize, task: Option<Task>) {
        self.0[worker].running.store(task.map_or(0, |task| task.0 + 1), Relaxed);
    }

    /// The worker with the greatest `load` of those whose first waiting task, of the weight
    /// `first`, would leave them with more than `worker` then has: the loads differ by more than
    /// that weight. From anywhere.
    pub(super) fn heavier(
        &self,
        worker: usize,
        load: impl Fn(usize) -> u64,
        first: impl Fn(usize) -> Option<u64>,
    ) -> Option<usize> {
        let is_heavier = |&other: &usize| is_heavier(worker, other, &load, &first);
        (0..self.0.len()).filter(is_heavier).max_by_key(|&other| load(other))
    }

    /// Is there another worker of which `has_more` is true? Looks at two, not at all: clocks ask
    /// all the time. Who is asked again comes to all in turn, and stays with one that has more.
    /// From anywhere.
    pub(super) fn any_has_more(&self, worker: usize, has_more: impl Fn(usize) -> bool) -> bool {
        let watched = &self.0[worker].watched;
        let has_more = |other: usize| other != worker && has_more(other);
        let last = watched.load(Relaxed);
        if has_more(last) {
            return true;
        }
        let count = self.0.len();
        let step = if (last + 1) % count == worker { 2 } else { 1 };
        let next = (last + step) % count;
        watched.store(next, Relaxed);
        has_more(next)
    }

    /// A task goes into a queue of `worker`. That worker only.
    pub(super) fn queued(&self, worker: usize, task: Task) {
        let running = &self.0[worker].running;
        if running.load(Relaxed) == task.0 + 1 {
            running.store(0, Relaxed);
        }
    }

    /// How many tasks `worker` has beside those in its queues: 0 or 1.
    pub(super) fn running(&self, worker: usize) -> usize {
        usize::from(self.0[worker].running.load(Relaxed) != 0)
    }
}

/// Does `other` have more than `worker` even if its first waiting task moves there?
pub(super) fn is_heavier(
    worker: usize,
    other: usize,
    load: impl Fn(usize) -> u64,
    first: impl Fn(usize) -> Option<u64>,
) -> bool {
    other != worker && first(other).is_some_and(|weight| load(worker) + weight < load(other))
}
