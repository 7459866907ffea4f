//! A worker's own queue: a [`Ring`], and a [`List`] behind it for what does not fit.
//!
//! # First in, first out across both
//!
//! Every task in the list is younger than every task in the ring: the owner adds to the list while
//! the list is not empty, even if the ring has room again, and moves the oldest of the list into
//! the ring when the ring has run empty. Only the owner adds, so "the list is empty", seen by the
//! owner, stays true until it adds to it: the usual case costs one load of a line that hardly ever
//! changes.
//!
//! # Nothing becomes invisible on the way
//!
//! Tasks move from list to ring only. They are in the ring before the list's length says that they
//! have left it, and observers look at the list first. So a task that stays in this queue is never
//! missed.

use super::{Links, List, RING_CAPACITY, Ring, RingFull};
use crate::Task;

/// An unbounded FIFO queue with one owner; others steal. See the [module](super) rules.
#[derive(Debug, Default)]
pub struct LocalQueue<const N: usize = RING_CAPACITY> {
    ring: Ring<N>,
    overflow: List,
}

impl<const N: usize> LocalQueue<N> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a task at the tail. Owner only.
    ///
    /// # Panics
    ///
    /// If the ring is full and the task is outside the table of links.
    #[inline]
    pub fn push(&self, links: &Links, task: Task) {
        if !self.overflow.is_empty() {
            self.overflow.push(links, task);
        } else if let Err(RingFull(task)) = self.ring.push(task) {
            self.overflow.push(links, task);
        }
    }

    /// Take the oldest task. Owner only.
    pub fn pop(&self, links: &Links) -> Option<Task> {
        self.pop_with(links, Ring::pop)
    }

    /// As [`pop`](LocalQueue::pop), where nobody ever steals: a few instructions less.
    pub(super) fn pop_alone(&self, links: &Links) -> Option<Task> {
        self.pop_with(links, Ring::pop_alone)
    }

    #[inline]
    fn pop_with(&self, links: &Links, pop: impl Fn(&Ring<N>) -> Option<Task>) -> Option<Task> {
        loop {
            let task = pop(&self.ring);
            if task.is_some() || !self.refill(links) {
                return task;
            }
        }
    }

    /// The oldest task, without taking it. Owner only; a thief may take the task at any moment.
    pub fn peek(&self, links: &Links) -> Option<Task> {
        loop {
            let task = self.ring.peek();
            if task.is_some() || !self.refill(links) {
                return task;
            }
        }
    }

    /// Move the oldest of the list into the ring, which is empty. False: the list is empty too.
    #[inline]
    fn refill(&self, links: &Links) -> bool {
        !self.overflow.is_empty() && self.refill_ring(links)
    }

    #[cold]
    fn refill_ring(&self, links: &Links) -> bool {
        let mut overflow = self.overflow.lock();
        for _ in 0..N {
            let Some(task) = overflow.pop(links) else { break };
            let moved = self.ring.push(task);
            debug_assert!(moved.is_ok(), "nobody else adds to this ring");
        }
        true
    }

    /// Take the older half (rounded up) of the ring, or of the list if the ring is empty, at most
    /// `N` tasks: the oldest is returned, the others are added to `mine`. The caller must own
    /// `mine`, which should be empty: stolen tasks would overtake those in its overflow list.
    /// `None`: nothing there.
    pub fn steal_into(&self, links: &Links, mine: &LocalQueue<N>) -> Option<Task> {
        self.ring.steal_into(&mine.ring).or_else(|| self.steal_overflow(links, mine))
    }

    #[cold]
    fn steal_overflow(&self, links: &Links, mine: &LocalQueue<N>) -> Option<Task> {
        if self.overflow.is_empty() {
            return None;
        }
        let room = N - mine.ring.len();
        let mut overflow = self.overflow.lock();
        let more = (overflow.len().div_ceil(2)).saturating_sub(1).min(room);
        let oldest = overflow.pop(links)?;
        for _ in 0..more {
            let Some(task) = overflow.pop(links) else { break };
            let moved = mine.ring.push(task);
            debug_assert!(moved.is_ok(), "only its owner, the caller, adds to this ring");
        }
        Some(oldest)
    }

    /// Take the oldest task of another's queue.
    pub fn steal_one(&self, links: &Links) -> Option<Task> {
        self.ring.steal_one().or_else(|| self.overflow.pop(links))
    }

    /// How many tasks wait; approximate while others steal.
    pub fn len(&self) -> usize {
        self.overflow.len() + self.ring.len()
    }

    /// Is the queue empty? A task that was added before the call and not taken is seen.
    pub fn is_empty(&self) -> bool {
        // This order: see the module documentation.
        self.overflow.is_empty() && self.ring.is_empty()
    }
}
