//! Strict priorities with aging.
//!
//! * Eight levels ([`PRIORITIES`]), a queue each, shared by all workers. The most urgent waiting
//!   task runs next; on one level: first in, first out, and preempted tasks go to the tail.
//! * A running task stops *at once* for one of a higher level, and when it has used its quantum for
//!   one of its own level. Not more workers are stopped than higher tasks wait: those with the
//!   least urgent tasks, counted by number.
//! * *Age.* A task that waits climbs a level at every `max-age` of waiting. So no level starves:
//!   from the lowest it has the highest after seven times that, and is then the oldest there. An
//!   aged task stops a running one only at the end of its quantum.
//! * The level that a task has reached is its own *until it has had a quantum*: only what is above
//!   that stops it earlier, and if it was, it keeps its age. Then it is back on its own level.
//! * A priority may change at any time ([`Policy::set_priority`]): a waiting task moves to the tail
//!   of its new level, a running one is judged by its new level.
//!
//! The classical rule of operating systems (SCHED_RR with aging); Skyloft compares with Linux's in
//! section 5.1.

use crate::{
    AttributeTable, Attributes, Class, PRIORITIES, Pick, Place, Policy, Running, Task, Time, Why,
    queue::{Links, List},
    sync::{AtomicU64, CachePadded, Ordering::Relaxed},
    table::{self, Table},
};

const LEVELS: usize = PRIORITIES as usize;

/// What a worker runs, and the level that it has until it has had a quantum. One word, the level
/// above.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Runs(u64);

impl Runs {
    /// More urgent than anything, so that nothing stops it.
    const NOTHING: Runs = Runs(u64::MAX);

    fn new(task: Task, level: usize) -> Runs {
        Runs((level as u64) << 32 | u64::from(task.0))
    }

    fn level(self) -> usize {
        (self.0 >> 32) as usize
    }

    fn is(self, task: Task) -> bool {
        self != Runs::NOTHING && self.0 as u32 == task.0
    }
}

/// Policy `priority`: strict priorities, a quantum within each, and aging.
#[derive(Debug)]
pub struct Priority {
    quantum: Option<Time>,
    max_age: Option<Time>,
    links: Links,
    attributes: AttributeTable,
    levels: [List; LEVELS],
    /// Since when each task ages: its last enqueue, or an earlier one if it has had no quantum
    /// since.
    ages_since: Table<AtomicU64>,
    /// When each task will have had a quantum, from its last dispatch on.
    quantum_ends: Table<AtomicU64>,
    /// [`Runs`] of each worker.
    running: Table<CachePadded<AtomicU64>>,
}

impl Priority {
    /// For `workers` workers and the tasks `0..max_tasks`. Times are in the host's unit. `quantum`:
    /// `None`: nothing is preempted, not even by higher levels; `max_age`: `None`: no aging.
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
            ages_since: table::zeroed_u64(max_tasks),
            quantum_ends: table::zeroed_u64(max_tasks),
            running: Table::of(workers, |_| CachePadded(AtomicU64::new(Runs::NOTHING.0))),
        }
    }

    /// The level that its creator, or whoever changed it last, gave the task.
    fn own_level(&self, task: Task) -> usize {
        usize::from(self.attributes.priority(task))
    }

    /// Since when the oldest task of a level has aged.
    fn oldest(&self, level: usize) -> Option<Time> {
        let task = self.levels[level].peek()?;
        Some(self.ages_since[task.0 as usize].load(Relaxed))
    }

    /// Where a task of `level` has climbed by now.
    fn reached(&self, level: usize, since: Time, now: Time) -> usize {
        let steps = self.max_age.map_or(0, |age| now.saturating_sub(since) / age);
        (level as u64).saturating_add(steps).min(LEVELS as u64 - 1) as usize
    }

    /// The level to take from: where the oldest task has climbed highest; among those, where it is
    /// oldest.
    fn best(&self, now: Time) -> Option<usize> {
        let climbed = |level: usize| {
            let since = self.oldest(level)?;
            Some((self.reached(level, since, now), core::cmp::Reverse(since), level))
        };
        (0..LEVELS).filter_map(climbed).max().map(|(_, _, level)| level)
    }

    /// Does a task of a level above `level` wait that `worker` is to run: are fewer workers before
    /// it with something less urgent, than such tasks wait?
    fn higher_waits(&self, worker: usize, level: usize) -> bool {
        let waiting: usize = self.levels[level + 1..].iter().map(List::len).sum();
        if waiting == 0 {
            return false;
        }
        let less_urgent =
            |&(other, level_there): &(usize, usize)| (level_there, other) < (level, worker);
        let levels = self.running.iter().map(|runs| Runs(runs.load(Relaxed)).level()).enumerate();
        levels.filter(less_urgent).count() < waiting
    }

    /// Queue a task on its level, whatever changes that meanwhile.
    fn push(&self, task: Task) {
        loop {
            let level = self.own_level(task);
            self.levels[level].push(&self.links, task);
            // Who changes the level stores it, then looks for the task under every list's lock. If
            // that was before this push, the lock shows the new level here; if it is after it, the
            // task is found.
            if self.own_level(task) == level || !self.levels[level].remove(&self.links, task) {
                return;
            }
        }
    }
}

impl Policy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn task_init(&self, task: Task, attributes: &Attributes, _now: Time) {
        self.attributes.set(task, attributes);
    }

    fn task_enqueue(&self, _place: Place, task: Task, why: Why, now: Time) {
        let index = task.0 as usize;
        // Who had to go before the end of the quantum for something more urgent has got nothing for
        // its wait yet.
        if why != Why::Preempted || now >= self.quantum_ends[index].load(Relaxed) {
            self.ages_since[index].store(now, Relaxed);
        }
        self.push(task);
    }

    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        // Another worker may be faster with the last task of a level; then the next best is wanted.
        let pick = loop {
            let Some(level) = self.best(now) else { break None };
            if let Some(task) = self.levels[level].pop(&self.links) {
                break Some((task, level));
            }
        };
        let runs = &self.running[worker];
        let Some((task, level)) = pick else {
            runs.store(Runs::NOTHING.0, Relaxed);
            return None;
        };
        let since = self.ages_since[task.0 as usize].load(Relaxed);
        let end = now.saturating_add(self.quantum.unwrap_or(0));
        self.quantum_ends[task.0 as usize].store(end, Relaxed);
        runs.store(Runs::new(task, self.reached(level, since, now)).0, Relaxed);
        Some(Pick { task, class: Class::Fresh })
    }

    fn heeds_priority(&self) -> bool {
        true
    }

    fn set_priority(&self, task: Task, priority: u8) {
        self.attributes.set_priority(task, priority);
        let level = self.own_level(task);
        for runs in &self.running {
            let seen = runs.load(Relaxed);
            if Runs(seen).is(task) {
                let _ = runs.compare_exchange(seen, Runs::new(task, level).0, Relaxed, Relaxed);
            }
        }
        // All but its own: of two callers at the same time the other may be moving it.
        let mut others = (0..LEVELS).filter(|&other| other != level);
        if others.any(|other| self.levels[other].remove(&self.links, task)) {
            self.push(task);
        }
    }

    fn central(&self) -> bool {
        true
    }

    fn balance(&self, _worker: usize, _now: Time) -> Option<Pick> {
        None
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let end = running.since.saturating_add(self.quantum?);
        let own = self.own_level(running.task);
        let runs = Runs(self.running[worker].load(Relaxed));
        let reached = if runs.is(running.task) { runs.level() } else { own };
        if self.higher_waits(worker, reached) {
            return Some(running.since);
        }
        // At the end of the quantum it is back on its own level. What is above the other was judged
        // already.
        let waits = self.levels[own..=reached.max(own)].iter().any(|level| !level.is_empty());
        let for_waiting = waits.then_some(end);
        // From a lower level, when it has climbed to this one.
        let lower = |low: usize| {
            let steps = (own - low) as u64;
            let climbed = self.oldest(low)?.saturating_add(self.max_age?.saturating_mul(steps));
            Some(climbed.max(end))
        };
        // Whom a timer wakes is not known yet.
        let for_timer = timer.map(|timer| timer.max(end));
        (0..own).filter_map(lower).chain(for_waiting).chain(for_timer).min()
    }

    fn has_work(&self, _worker: usize) -> bool {
        self.levels.iter().any(|level| !level.is_empty())
    }

    fn waiting(&self) -> usize {
        self.levels.iter().map(List::len).sum()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::{sync::Arc, thread};

    /// A task is queued while another changes its priority: it ends on the level that it has, once.
    #[test]
    fn a_task_is_found_on_its_level() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 10_000;
        builder.check(|| {
            let policy = Arc::new(Priority::new(1, 1, Some(10), None));
            let setter = {
                let policy = policy.clone();
                thread::spawn(move || policy.set_priority(Task(0), 6))
            };
            policy.task_enqueue(Place::Shared, Task(0), Why::New, 0);
            setter.join().unwrap();
            let waits = |level: &usize| !policy.levels[*level].is_empty();
            let levels: alloc::vec::Vec<_> = (0..LEVELS).filter(waits).collect();
            assert_eq!(levels, [6]);
            assert_eq!(policy.waiting(), 1);
        });
    }
}
