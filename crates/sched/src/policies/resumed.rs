//! Preempted tasks of each worker, the one that is to go on before the others.
//!
//! A long task that stops for new work has not had its turn: it goes back to the front, and the
//! others wait until its turn is over, as they would if the new work were an interrupt. If it went
//! to the tail, all long tasks would advance together and end late: at half load the slowest
//! hundredth of scans of 260 us takes twice as long (`quaver sim`).
//!
//! The front is one word of each worker, so there is no instant at which a task is nowhere: it is
//! put there and taken by one store or swap.

use crate::{
    Task, Time,
    queue::{Links, WorkerQueues},
    sync::{AtomicU32, CachePadded, Ordering::*},
    table::Table,
};

/// The one that has waited longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Oldest {
    pub(super) since: Time,
    pub(super) at_front: bool,
}

/// The queues.
#[derive(Debug)]
pub(super) struct Resumed {
    queues: WorkerQueues,
    /// The number plus one of the task before the queue's head; 0: none. Filled by its worker only;
    /// thieves may take it.
    fronts: Table<CachePadded<AtomicU32>>,
}

impl Resumed {
    pub(super) fn new(workers: usize) -> Self {
        let front = |_| CachePadded(AtomicU32::new(0));
        Resumed { queues: WorkerQueues::new(workers), fronts: Table::of(workers, front) }
    }

    /// At the tail. That worker only.
    pub(super) fn push(&self, worker: usize, links: &Links, task: Task) {
        self.queues.push(worker, links, task);
    }

    /// At the front if nobody is there, else at the tail. That worker only.
    pub(super) fn put_back(&self, worker: usize, links: &Links, task: Task) {
        let front = &self.fronts[worker];
        if front.load(Relaxed) == 0 {
            front.store(task.0 + 1, Release);
        } else {
            self.push(worker, links, task);
        }
    }

    /// The first, and whether it was at the front. That worker only.
    pub(super) fn pop(&self, worker: usize, links: &Links) -> Option<(Task, bool)> {
        let front = self.take_front(worker).map(|task| (task, true));
        front.or_else(|| self.queues.pop(worker, links).map(|task| (task, false)))
    }

    /// The one that has waited longest, given since when each has: the front or the queue's head. A
    /// thief may take it at any moment. That worker only.
    pub(super) fn oldest(
        &self,
        worker: usize,
        links: &Links,
        since: impl Fn(Task) -> Time,
    ) -> Option<Oldest> {
        let front = match self.fronts[worker].load(Acquire) {
            0 => None,
            front => Some(Oldest { since: since(Task(front - 1)), at_front: true }),
        };
        let head = self.queues.peek(worker, links);
        let head = head.map(|task| Oldest { since: since(task), at_front: false });
        match (front, head) {
            (Some(front), Some(head)) if head.since < front.since => Some(head),
            (front, head) => front.or(head),
        }
    }

    /// The one that [`oldest`](Resumed::oldest) has found, or its successor if a thief has taken
    /// that. That worker only.
    pub(super) fn pop_oldest(&self, worker: usize, links: &Links, oldest: Oldest) -> Option<Task> {
        if oldest.at_front { self.take_front(worker) } else { self.queues.pop(worker, links) }
    }

    /// What waits behind the front first, then the front.
    pub(super) fn steal_from(&self, victim: usize, worker: usize, links: &Links) -> Option<Task> {
        let queued = self.queues.steal_from(victim, worker, links);
        queued.or_else(|| self.take_front(victim))
    }

    /// Gives all to `keep`, the front first. Returns how many. From anywhere.
    pub(super) fn move_all(
        &self,
        worker: usize,
        links: &Links,
        mut keep: impl FnMut(Task),
    ) -> usize {
        let front = self.take_front(worker).map(&mut keep).map_or(0, |()| 1);
        front + self.queues.move_all(worker, links, keep)
    }

    pub(super) fn victims(&self, worker: usize) -> impl Iterator<Item = usize> {
        self.queues.victims(worker)
    }

    pub(super) fn even_out(&self, worker: usize, links: &Links, running: usize) {
        self.queues.even_out(worker, links, running + self.at_front(worker));
    }

    pub(super) fn is_empty(&self, worker: usize) -> bool {
        self.at_front(worker) == 0 && self.queues.is_empty(worker)
    }

    /// How many another worker may take to even out. From anywhere.
    pub(super) fn movable(&self, worker: usize) -> usize {
        self.queues.len(worker)
    }

    pub(super) fn any_waiting(&self) -> bool {
        (0..self.fronts.len()).any(|worker| self.at_front(worker) != 0) || self.queues.any_waiting()
    }

    pub(super) fn total(&self) -> usize {
        let fronts: usize = (0..self.fronts.len()).map(|worker| self.at_front(worker)).sum();
        fronts + self.queues.total()
    }

    fn at_front(&self, worker: usize) -> usize {
        usize::from(self.fronts[worker].load(Acquire) != 0)
    }

    /// The front, taken: from anywhere.
    fn take_front(&self, worker: usize) -> Option<Task> {
        let front = &self.fronts[worker];
        if front.load(Relaxed) == 0 {
            return None;
        }
        match front.swap(0, AcqRel) {
            0 => None,
            task => Some(Task(task - 1)),
        }
    }
}
