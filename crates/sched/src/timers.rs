//! Timers: which task wakes when.
//!
//! [`TimerHeap`] is a binary-heap-like array with four children a node (shallower, and the four
//! keys compared lie together), ordered by time and, among equal times, by order of insertion. A
//! [`TimerTable`] holds one word for each task: in which heap its timer is, and at which position.
//! So a timer can be cancelled in logarithmic time, and a host can ask the table *whose* heap a
//! task's timer is in: usual is one heap a worker and one table for all.
//!
//! # Threads
//!
//! A heap is used by one thread at a time (`&mut`); a host that lets others cancel puts it under a
//! lock. The table is shared. A task's entry is written only by the operations of the heap that
//! holds its timer; for a task to go from one heap to another, the host must order the removal from
//! the first before the insertion into the second, as it does when a task runs first on one worker
//! and then on another. [`TimerTable::heap_of`] may be asked from anywhere, but its answer is a
//! hint until the heap that it names is locked: then [`TimerHeap::cancel`] tells the truth.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    Task, Time,
    sync::{AtomicU64, Ordering::Relaxed},
    table::{self, Table},
};

/// Where each task's timer is. One for all heaps of a host.
#[derive(Debug)]
pub struct TimerTable(Table<AtomicU64>);

/// Heap in the upper half, position plus one in the lower; 0: no timer.
const NOWHERE: u64 = 0;

impl TimerTable {
    /// For the tasks `0..max_tasks`: 8 bytes each, physically allocated when first used.
    pub fn new(max_tasks: u32) -> Self {
        TimerTable(table::zeroed_u64(max_tasks))
    }

    /// The heap (by the number given to [`TimerHeap::new`]) in which `task` has a timer at this
    /// moment, if any.
    pub fn heap_of(&self, task: Task) -> Option<u32> {
        match self.entry(task).load(Relaxed) {
            NOWHERE => None,
            place => Some((place >> 32) as u32),
        }
    }

    fn entry(&self, task: Task) -> &AtomicU64 {
        &self.0[task.0 as usize]
    }
}

/// The timers of one worker: at most one for each task, and in one heap of a table at most.
#[derive(Debug)]
pub struct TimerHeap {
    id: u32,
    table: Arc<TimerTable>,
    /// Every child is later than its parent; the children of `i` are `4 i + 1 ..= 4 i + 4`.
    heap: Vec<Timer>,
    next_seq: u64,
}

/// The order of the fields is the order of timers. `seq` is unique, so `task` never decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Timer {
    at: Time,
    seq: u64,
    task: Task,
}

const ARITY: usize = 4;

/// Memory for the timers of a [`TimerHeap`].
#[derive(Debug)]
pub struct TimerRoom(Vec<Timer>);

impl TimerRoom {
    /// Room for `timers` timers.
    pub fn new(timers: usize) -> Self {
        TimerRoom(Vec::with_capacity(timers))
    }
}

impl TimerHeap {
    /// An empty heap with the number `id`, which must be different for each heap of `table`.
    pub fn new(id: u32, table: Arc<TimerTable>) -> Self {
        TimerHeap { id, table, heap: Vec::new(), next_seq: 0 }
    }

    /// Let `task` expire at `at`. If it has a timer in this heap already, that is moved. `O(log
    /// n)`; allocates when the heap grows beyond its greatest length so far.
    ///
    /// # Panics
    ///
    /// If the task has a timer in another heap, or is outside the table.
    pub fn insert(&mut self, task: Task, at: Time) {
        self.cancel(task);
        let entry = self.table.entry(task).load(Relaxed);
        assert!(entry == NOWHERE, "{task:?} has a timer in heap {}", entry >> 32);
        let seq = self.next_seq;
        self.next_seq += 1;
        self.heap.push(Timer { at, seq, task });
        self.sift_up(self.heap.len() - 1);
    }

    /// How many timers the heap should have room for before the next [`insert`](Self::insert), if
    /// that would allocate: for hosts that must not allocate while they have the heap. They make a
    /// [`TimerRoom`] first, then [`exchange_room`](Self::exchange_room).
    pub fn room_wanted(&self) -> Option<usize> {
        (self.heap.len() == self.heap.capacity()).then(|| (2 * self.heap.len()).max(64))
    }

    /// Move into `room`, unless it is too small by now. Returns what is to be freed. Does not
    /// allocate.
    pub fn exchange_room(&mut self, mut room: TimerRoom) -> TimerRoom {
        if room.0.capacity() > self.heap.capacity() {
            room.0.extend_from_slice(&self.heap);
            core::mem::swap(&mut room.0, &mut self.heap);
        }
        room
    }

    /// Remove the task's timer. False: it has none in this heap. `O(log n)`.
    ///
    /// # Panics
    ///
    /// If the task is outside the table.
    pub fn cancel(&mut self, task: Task) -> bool {
        let entry = self.table.entry(task).load(Relaxed);
        let mine = entry != NOWHERE && (entry >> 32) as u32 == self.id;
        if mine {
            self.remove((entry as u32 - 1) as usize);
        }
        mine
    }

    /// When the earliest timer expires.
    pub fn peek(&self) -> Option<Time> {
        self.heap.first().map(|timer| timer.at)
    }

    /// Remove the earliest timer if it has expired (`at <= now`) and return its task. Call until
    /// `None`. `O(log n)`.
    pub fn pop_expired(&mut self, now: Time) -> Option<Task> {
        let &Timer { at, task, .. } = self.heap.first()?;
        if at > now {
            return None;
        }
        self.remove(0);
        Some(task)
    }

    /// How many timers there are.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn remove(&mut self, position: usize) {
        let removed = self.heap.swap_remove(position);
        self.table.entry(removed.task).store(NOWHERE, Relaxed);
        if position < self.heap.len() {
            // The last one came here from another branch: it may be too early for this place or too
            // late.
            let position = self.sift_up(position);
            self.sift_down(position);
        }
    }

    /// Exchange the timer at `position` with its parents until none is later. Returns where it
    /// ends.
    fn sift_up(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.heap[parent] < self.heap[position] {
                break;
            }
            self.heap.swap(parent, position);
            self.record(position);
            position = parent;
        }
        self.record(position);
        position
    }

    /// Exchange the timer at `position` with its earliest child until none is earlier.
    fn sift_down(&mut self, mut position: usize) {
        loop {
            let first = ARITY * position + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let earliest = children.min_by_key(|&child| self.heap[child]);
            let Some(child) = earliest.filter(|&child| self.heap[child] < self.heap[position])
            else {
                break;
            };
            self.heap.swap(child, position);
            self.record(position);
            position = child;
        }
        self.record(position);
    }

    /// Write down where the timer at `position` is.
    fn record(&self, position: usize) {
        let place = u64::from(self.id) << 32 | (position as u64 + 1);
        let task = self.heap[position].task;
        self.table.entry(task).store(place, Relaxed);
    }
}

impl Drop for TimerHeap {
    /// The tasks of the timers that are left have none afterwards.
    fn drop(&mut self) {
        for timer in &self.heap {
            self.table.entry(timer.task).store(NOWHERE, Relaxed);
        }
    }
}
