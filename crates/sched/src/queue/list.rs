//! An unbounded FIFO list of tasks, linked through a table, under a tiny spin lock.
//!
//! There is no node to allocate: a task is in at most one queue, so one word of a [`Links`] table
//! for each task is enough for any number of lists. A link holds the successor's number plus one, 0
//! at the end; the table is zeroed memory that costs nothing for tasks that were never in a list.
//!
//! The lock protects `head`, `tail` and the links of the tasks in the list. They are atomics,
//! accessed relaxed: the lock orders them, and no unsafe code is needed. `len` is written under the
//! lock and read without it, so looking whether a list is empty costs one load of a line that
//! changes only when the list does.

use crate::{
    Task,
    sync::{AtomicU32, AtomicUsize, Ordering::*, Spin, SpinGuard},
    table::{self, Table},
};

/// The successor of each task in whichever [`List`] holds it. Share one table among all lists of a
/// policy.
#[derive(Debug)]
pub struct Links(Table<AtomicU32>);

impl Links {
    /// Links for the tasks `0..max_tasks`: 4 bytes each, physically allocated as tasks are first
    /// queued.
    ///
    /// # Panics
    ///
    /// If `max_tasks` is `u32::MAX`, or if memory cannot be reserved.
    pub fn new(max_tasks: u32) -> Self {
        assert!(max_tasks < u32::MAX, "max_tasks must be below 2^32 - 1");
        Links(table::zeroed_u32(max_tasks))
    }

    fn of(&self, task: Task) -> &AtomicU32 {
        &self.0[task.0 as usize]
    }
}

/// No task, as a link.
const NIL: u32 = 0;

/// An unbounded FIFO of tasks that anyone may add to and take from. Every operation that needs
/// links must be given the same table. See the [module](super) rules.
#[derive(Debug)]
#[repr(align(64))]
pub struct List {
    spin: Spin,
    head: AtomicU32,
    tail: AtomicU32,
    len: AtomicUsize,
}

impl List {
    /// An empty list.
    pub fn new() -> Self {
        List {
            spin: Spin::default(),
            head: AtomicU32::new(NIL),
            tail: AtomicU32::new(NIL),
            len: AtomicUsize::new(0),
        }
    }

    /// Add a task at the tail.
    ///
    /// # Panics
    ///
    /// If the task is outside the table of links.
    pub fn push(&self, links: &Links, task: Task) {
        let link = links.of(task);
        let mut list = self.lock();
        link.store(NIL, Relaxed);
        match self.tail.load(Relaxed) {
            NIL => self.head.store(task.0 + 1, Relaxed),
            last => links.of(Task(last - 1)).store(task.0 + 1, Relaxed),
        }
        self.tail.store(task.0 + 1, Relaxed);
        list.len += 1;
    }

    /// Take the oldest task. Does not touch the lock if the list is empty.
    pub fn pop(&self, links: &Links) -> Option<Task> {
        if self.is_empty() {
            return None;
        }
        self.lock().pop(links)
    }

    /// Take a task out, wherever it is in the list: a walk from the head, under the lock. False: it
    /// is not in this list. Always takes the lock: what the caller did before is seen by whoever
    /// adds the task later.
    pub fn remove(&self, links: &Links, task: Task) -> bool {
        self.lock().remove(links, task)
    }

    /// Take up to `most` of the oldest tasks and give each to `keep`, which puts it where it
    /// belongs. All happens under the lock, and the new length is visible at its end: an observer
    /// who looks at this list first and then where `keep` puts them misses none. `keep` must not
    /// use this list.
    pub fn move_to(&self, links: &Links, most: usize, mut keep: impl FnMut(Task)) {
        if self.is_empty() {
            return;
        }
        let mut list = self.lock();
        (0..most).map_while(|_| list.pop(links)).for_each(&mut keep);
    }

    /// The oldest task, without taking it; two loads. Others may take it at any moment.
    pub fn peek(&self) -> Option<Task> {
        self.head.load(Acquire).checked_sub(1).map(Task)
    }

    /// How many tasks wait; one load.
    pub fn len(&self) -> usize {
        self.len.load(Acquire)
    }

    /// Is the list empty? One load.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Take the lock for several operations. The new length becomes visible when it is released.
    pub(super) fn lock(&self) -> Locked<'_> {
        let guard = self.spin.lock();
        Locked { list: self, len: self.len.load(Relaxed), _guard: guard }
    }
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

/// A [`List`] whose lock the caller holds.
pub(super) struct Locked<'a> {
    list: &'a List,
    len: usize,
    /// Dropped after the new length has been stored.
    _guard: SpinGuard<'a>,
}

impl Locked<'_> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Take the oldest task. It is unlinked completely, so it may be given away while the lock is
    /// still held.
    pub(super) fn pop(&mut self, links: &Links) -> Option<Task> {
        let first = self.list.head.load(Relaxed);
        if first == NIL {
            return None;
        }
        let task = Task(first - 1);
        let next = links.of(task).load(Relaxed);
        self.list.head.store(next, Relaxed);
        if next == NIL {
            self.list.tail.store(NIL, Relaxed);
        }
        self.len -= 1;
        Some(task)
    }

    fn remove(&mut self, links: &Links, task: Task) -> bool {
        let (wanted, mut before) = (task.0 + 1, NIL);
        let mut here = self.list.head.load(Relaxed);
        while here != wanted {
            if here == NIL {
                return false;
            }
            before = here;
            here = links.of(Task(here - 1)).load(Relaxed);
        }
        let next = links.of(task).load(Relaxed);
        match before {
            NIL => self.list.head.store(next, Relaxed),
            before => links.of(Task(before - 1)).store(next, Relaxed),
        }
        if next == NIL {
            self.list.tail.store(before, Relaxed);
        }
        self.len -= 1;
        true
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Release: who sees the new length without the lock also sees what the holder did before,
        // such as adding the removed tasks to another queue.
        self.list.len.store(self.len, Release);
    }
}
