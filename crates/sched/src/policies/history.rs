//! Tasks that ran for long the last time count as long when they wake.
//!
//! Where each connection has a task, the kind of its next request is often that of its last. A task
//! that wakes is new work all the same, so behind connections that always ask for long requests a
//! short one waits until each of these has had a quantum. With a history, a task that has run for
//! longer than a given time between two waits is queued with preempted work when it wakes. After a
//! run that is shorter it counts as new again, so a wrong guess delays one request, and no longer
//! than the maximal age lets preempted work wait. Not in the papers.
//!
//! What wakes elsewhere than on a worker goes into a list that the next worker empties.

use crate::{
    Task, Time, Why,
    queue::{Links, List},
    sync::{AtomicU64, Ordering::Relaxed},
    table::{self, Table},
};

/// How long each task has run since it was woken or went on with another request, and those that
/// wait outside of the workers.
#[derive(Debug)]
pub(super) struct History {
    /// Whoever has run for longer was long.
    longer_than: Time,
    ran: Table<AtomicU64>,
    outside: List,
}

impl History {
    pub(super) fn new(max_tasks: u32, longer_than: Time) -> Self {
        History { longer_than, ran: table::zeroed_u64(max_tasks), outside: List::new() }
    }

    /// The task has run for so long more.
    pub(super) fn ran(&self, task: Task, ran: Time) {
        let sum = &self.ran[task.0 as usize];
        sum.store(sum.load(Relaxed).wrapping_add(ran), Relaxed);
    }

    /// The running task begins another request, after `ran` of its dispatch, all of which will be
    /// added when it stops.
    pub(super) fn begins(&self, task: Task, ran: Time) {
        self.ran[task.0 as usize].store(0_u64.wrapping_sub(ran), Relaxed);
    }

    /// The task becomes runnable: was its last run long? A new one had none, and who yields asks
    /// for nothing new. Counts anew, unless the task was preempted.
    pub(super) fn was_long(&self, task: Task, why: Why) -> bool {
        if why == Why::Preempted {
            return false;
        }
        let sum = &self.ran[task.0 as usize];
        let ran = sum.load(Relaxed);
        sum.store(0, Relaxed);
        // Less than nothing: clocks differ a little.
        why == Why::Woken && ran > self.longer_than && ran.cast_signed() > 0
    }

    /// It waits outside. From anywhere.
    pub(super) fn push(&self, links: &Links, task: Task) {
        self.outside.push(links, task);
    }

    /// All that wait outside, to `keep`. Who looks here before he looks where `keep` puts them
    /// misses none.
    pub(super) fn move_to(&self, links: &Links, keep: impl FnMut(Task)) {
        self.outside.move_to(links, usize::MAX, keep);
    }

    /// How many wait outside.
    pub(super) fn len(&self) -> usize {
        self.outside.len()
    }
}
