//! A bounded ring with one owner, from which others may steal.
//!
//! ```text
//!            head                       tail
//!             |                          |
//!    ... free | oldest ........ youngest | free ...
//!             |                          |
//!   taken by compare-and-swap        advanced by the owner alone,
//!   (owner and thieves)              with a plain store
//! ```
//!
//! # Invariants
//!
//! * `head <= tail <= head + N`. Both count up for ever, as 64-bit numbers, so a value never comes
//!   back and a compare-and-swap on `head` cannot succeed on an old value (no ABA).
//! * Only the owner writes slots and `tail`, and only slots in `tail .. head + N`.
//! * Who moves `head` from `h` to `h + n` owns the tasks in `h .. h + n`. Their slots were read
//!   *before* the swap; since `head` was still `h` at the swap, the owner cannot have written them
//!   in between.
//!
//! # Ordering
//!
//! `tail` is stored with release and loaded by thieves with acquire: they see the slots. `head` is
//! swapped with release and loaded by the owner with acquire before it writes a slot again: a
//! thief's read of the old value is over by then.

use crate::{
    Task,
    sync::{AtomicU32, AtomicU64, CachePadded, Ordering::*},
};

/// A bounded FIFO ring of `N` tasks (a power of two) with one owner; others steal. See the
/// [module](super) rules.
#[derive(Debug)]
pub struct Ring<const N: usize = { super::RING_CAPACITY }> {
    /// Written by owner and thieves, so on a line of its own.
    head: CachePadded<AtomicU64>,
    /// Written by the owner.
    tail: CachePadded<AtomicU64>,
    slots: CachePadded<[AtomicU32; N]>,
}

/// The ring had no room; holds the task that was to be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingFull(pub Task);

impl<const N: usize> Ring<N> {
    const SIZE: u64 = {
        assert!(N.is_power_of_two(), "the capacity of a ring is a power of two");
        N as u64
    };

    /// An empty ring.
    pub fn new() -> Self {
        Ring {
            head: CachePadded(AtomicU64::new(0)),
            tail: CachePadded(AtomicU64::new(0)),
            slots: CachePadded(core::array::from_fn(|_| AtomicU32::new(0))),
        }
    }

    fn slot(&self, position: u64) -> &AtomicU32 {
        &self.slots[(position & (Self::SIZE - 1)) as usize]
    }

    /// Add a task at the tail. Owner only; no read-modify-write operation.
    ///
    /// # Errors
    ///
    /// [`RingFull`] if `N` tasks are in the ring.
    pub fn push(&self, task: Task) -> Result<(), RingFull> {
        let tail = self.tail.load(Relaxed);
        // Acquire: thieves have finished reading the slots below `head`.
        let head = self.head.load(Acquire);
        if tail - head >= Self::SIZE {
            return Err(RingFull(task));
        }
        self.slot(tail).store(task.0, Relaxed);
        self.tail.store(tail + 1, Release);
        Ok(())
    }

    /// Take the oldest task. Owner only; one compare-and-swap unless a thief interferes.
    pub fn pop(&self) -> Option<Task> {
        let tail = self.tail.load(Relaxed);
        let mut head = self.head.load(Acquire);
        while head != tail {
            let task = self.slot(head).load(Relaxed);
            match self.head.compare_exchange_weak(head, head + 1, AcqRel, Acquire) {
                Ok(_) => return Some(Task(task)),
                Err(actual) => head = actual,
            }
        }
        None
    }

    /// As [`pop`](Ring::pop), where there are no thieves: no read-modify-write operation.
    pub(super) fn pop_alone(&self) -> Option<Task> {
        let head = self.head.load(Relaxed);
        if head == self.tail.load(Relaxed) {
            return None;
        }
        let task = self.slot(head).load(Relaxed);
        // Release: whoever looks at the length from elsewhere sees no more than that.
        self.head.store(head + 1, Release);
        Some(Task(task))
    }

    /// The oldest task, without taking it. Owner only; a thief may take the task at any moment.
    pub fn peek(&self) -> Option<Task> {
        let tail = self.tail.load(Relaxed);
        let head = self.head.load(Acquire);
        (head != tail).then(|| Task(self.slot(head).load(Relaxed)))
    }

    /// Take the older half (rounded up) of this ring's tasks: the oldest is returned, the others
    /// are added to `mine` in their order, as far as it has room. Anyone but this ring's owner may
    /// call it; the caller must own `mine`. `None`: this ring is empty.
    pub fn steal_into(&self, mine: &Ring<N>) -> Option<Task> {
        let my_tail = mine.tail.load(Relaxed);
        let my_room = Self::SIZE - (my_tail - mine.head.load(Acquire));
        let mut head = self.head.load(Acquire);
        loop {
            // Acquire: the slots below `tail` are written. Loaded after `head`, so not below it.
            let waiting = self.tail.load(Acquire) - head;
            if waiting == 0 {
                return None;
            }
            // With an outdated `head`, `waiting` may exceed N; the swap below fails then, but stay
            // within `mine`.
            let take = waiting.div_ceil(2).min(my_room + 1).min(Self::SIZE);
            let oldest = self.slot(head).load(Relaxed);
            for i in 1..take {
                let task = self.slot(head + i).load(Relaxed);
                mine.slot(my_tail + i - 1).store(task, Relaxed);
            }
            match self.head.compare_exchange_weak(head, head + take, AcqRel, Acquire) {
                Ok(_) => {
                    mine.tail.store(my_tail + take - 1, Release);
                    return Some(Task(oldest));
                }
                Err(actual) => head = actual,
            }
        }
    }

    /// Take the oldest task. Anyone but this ring's owner may call it.
    pub fn steal_one(&self) -> Option<Task> {
        let mut head = self.head.load(Acquire);
        // Acquire: the slots below `tail` are written.
        while self.tail.load(Acquire) != head {
            let task = self.slot(head).load(Relaxed);
            match self.head.compare_exchange_weak(head, head + 1, AcqRel, Acquire) {
                Ok(_) => return Some(Task(task)),
                Err(actual) => head = actual,
            }
        }
        None
    }

    /// How many tasks wait; exact for the owner while nobody steals, else a value of a moment ago.
    pub fn len(&self) -> usize {
        let head = self.head.load(Acquire);
        (self.tail.load(Acquire) - head).min(Self::SIZE) as usize
    }

    /// Is the ring empty? If it answers yes, there was a moment during the call at which it was.
    pub fn is_empty(&self) -> bool {
        // `head` first: if `tail`, read later, is still equal to it, nothing was between them at
        // that time.
        let head = self.head.load(Acquire);
        self.tail.load(Acquire) == head
    }
}

impl<const N: usize> Default for Ring<N> {
    fn default() -> Self {
        Self::new()
    }
}
