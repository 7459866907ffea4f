//! Strict priorities with aging.
//!
//! * Eight levels ([`PRIORITIES`]), a queue each, shared by all workers. The most urgent waiting task runs next; on one
//!   level: first in, first out, and preempted tasks go to the tail.
//! * A running task stops *at once* for one of a higher level, and when it has used its quantum for one of its own level. Not
//!   more workers are stopped than higher tasks wait: those with the least urgent tasks, counted by number.
//! * *Age.* A task that waits climbs a level at every `max-age` of waiting, so no level starves: from the lowest it
//!   has the highest after seven times that, and is then the oldest there. An aged task stops a running one only at the
//!   end of its quantum. When it has run it is back on its own level.
//!
//! The classical rule of operating systems (SCHED_RR with aging); Skyloft compares with Linux's in section 5.1.

use alloc::boxed::Box;

use crate::{
    AttributeTable, Attributes, Class, PRIORITIES, Pick, Place, Policy, Running, Task, Time, Why,
    queue::{Links, List},
    sync::{AtomicU32, AtomicU64, CachePadded, Ordering::Relaxed},
    table,
};

const LEVELS: usize = PRIORITIES as usize;
/// Of a worker that runs nothing: more urgent than anything, so that nothing stops it.
const IDLE: u32 = u32::MAX;

/// Policy `priority`: strict priorities, a quantum within each, and aging.
#[derive(Debug)]
pub struct Priority {
    quantum: Option<Time>,
    max_age: Option<Time>,
    links: Links,
    attributes: AttributeTable,
    levels: [List; LEVELS],
    /// When each task was enqueued; valid while it waits.
    enqueued_at: Box<[AtomicU64]>,
    /// The level of what each worker runs.
    running: Box<[CachePadded<AtomicU32>]>,
}

impl Priority {
    /// For `workers` workers and the tasks `0..max_tasks`. Times are in the host's unit. `quantum`: `None`: nothing
    /// is preempted, not even by higher levels; `max_age`: `None`: no aging.
    ///
    /// # Panics
    ///
    /// As [`Links::new`].
    pub fn new(
        workers: usize,
        max_tasks: u32,
        quantum: Option<Time>,
        max_age: Option<Time>,
    ) -> Self {
        Priority {
            quantum,
            max_age: max_age.map(|age| age.max(1)),
            links: Links::new(max_tasks),
            attributes: AttributeTable::new(max_tasks),
            levels: core::array::from_fn(|_| List::new()),
            enqueued_at: table::zeroed_u64(max_tasks),
            running: (0..workers).map(|_| CachePadded(AtomicU32::new(IDLE))).collect(),
        }
    }

    /// When the oldest task of a level was enqueued.
    fn oldest(&self, level: usize) -> Option<Time> {
        let task = self.levels[level].peek()?;
        Some(self.enqueued_at[task.0 as usize].load(Relaxed))
    }

    /// The level to take from: where the oldest task has climbed highest; among those, where it is oldest.
    fn best(&self, now: Time) -> Option<usize> {
        let climbed = |level: usize| {
            let since = self.oldest(level)?;
            let steps = self.max_age.map_or(0, |age| now.saturating_sub(since) / age);
            let reached = (level as u64).saturating_add(steps).min(LEVELS as u64 - 1);
            Some((reached, core::cmp::Reverse(since), level))
        };
        (0..LEVELS).filter_map(climbed).max().map(|(_, _, level)| level)
    }

    /// Does a task of a level above `level` wait that `worker` is to run: are fewer workers before it with something less
    /// urgent, than such tasks wait?
    fn higher_waits(&self, worker: usize, level: usize) -> bool {
        let waiting: usize = self.levels[level + 1..].iter().map(List::len).sum();
        if waiting == 0 {
            return false;
        }
        let mine = (level as u32, worker);
        let before =
            |&(other, runs): &(usize, &CachePadded<AtomicU32>)| (runs.load(Relaxed), other) < mine;
        self.running.iter().enumerate().filter(before).count() < waiting
    }
}

impl Policy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn task_init(&self, task: Task, attributes: &Attributes, _now: Time) {
        self.attributes.set(task, attributes);
    }

    fn task_enqueue(&self, _place: Place, task: Task, _why: Why, now: Time) {
        self.enqueued_at[task.0 as usize].store(now, Relaxed);
        self.levels[usize::from(self.attributes.priority(task))].push(&self.links, task);
    }

    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        // Another worker may be faster with the last task of a level; then the next best is wanted.
        let task = loop {
            let Some(level) = self.best(now) else { break None };
            if let Some(task) = self.levels[level].pop(&self.links) {
                break Some(task);
            }
        };
        let level = task.map_or(IDLE, |task| u32::from(self.attributes.priority(task)));
        self.running[worker].store(level, Relaxed);
        Some(Pick { task: task?, class: Class::Fresh })
    }

    fn central(&self) -> bool {
        true
    }

    fn balance(&self, _worker: usize, _now: Time) -> Option<Pick> {
        None
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let end = running.since.saturating_add(self.quantum?);
        let level = usize::from(self.attributes.priority(running.task));
        if self.higher_waits(worker, level) {
            return Some(running.since);
        }
        let for_equal = (!self.levels[level].is_empty()).then_some(end);
        // From a lower level, when it has climbed to this one.
        let lower = |low: usize| {
            let steps = (level - low) as u64;
            let climbed = self.oldest(low)?.saturating_add(self.max_age?.saturating_mul(steps));
            Some(climbed.max(end))
        };
        // Whom a timer wakes is not known yet.
        let for_timer = timer.map(|timer| timer.max(end));
        (0..level).filter_map(lower).chain(for_equal).chain(for_timer).min()
    }

    fn has_work(&self, _worker: usize) -> bool {
        self.levels.iter().any(|level| !level.is_empty())
    }

    fn waiting(&self) -> usize {
        self.levels.iter().map(List::len).sum()
    }
}
