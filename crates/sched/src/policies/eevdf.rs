//! Earliest eligible virtual deadline first, as in Linux since 6.6 (Stoica and Abdel-Wahab 1995).
//!
//! * Each task has a *virtual time*, the time it has run divided by its weight, and a *virtual
//!   deadline*: the virtual time at which it will have used its slice, `quantum`. Each worker has
//!   the weighted average `V` of its runnable tasks' virtual times.
//! * The *lag* of a task is `V` less its virtual time: what it still has to get. It is *eligible*
//!   unless its lag is negative. Of the eligible tasks the one with the earliest deadline runs next
//!   (Skyloft section 5.1, Table 5).
//! * A running task stops when it has used its slice and would not be chosen again; before that
//!   only for an eligible task with an earlier deadline that has been created or woken since. So
//!   what the host has chosen runs on, though it may have chosen out of turn: it asks for the next
//!   task before it returns the last. Slices are whole ones however many wait (Linux:
//!   `base_slice`): `quantum` is what bounds the cost of preemption. After a task that was stopped
//!   late another may have several in a row.
//! * A task that sleeps or moves keeps its lag, but not more than two slices of it either way, and
//!   what is left of its slice if it was preempted. It is put back so that its lag is the same
//!   *after* it has changed the average.
//! * Work from elsewhere goes to the worker with the least load at once, so that its wait counts.
//!   Workers take tasks from others as in `cfs`.
//!
//! Each worker has two heaps: the eligible by deadline, the others by virtual time. A task that has
//! become eligible stays so until it runs, even if the average falls because others leave. One lock
//! for each worker covers both heaps and the average.

use crate::{
    AttributeTable, Attributes, Class, DEFAULT_WEIGHT, Pick, Place, Policy, Running, Task, Time,
    Why,
    policies::looks::{self, Looks},
    queue::{Heap, Moves, Nodes},
    sync::{AtomicU32, AtomicU64, AtomicUsize, CachePadded, Ordering::*, Spin},
    table::{self, Table},
};

/// Virtual times begin here, so that they can go below.
const START: u64 = 1 << 48;
/// A worker takes at most so many tasks at once from others.
const MOST_MOVED: usize = 64;
/// Virtual time of one unit of time at weight 1.
const UNIT: u64 = DEFAULT_WEIGHT as u64;
/// More than rounding can amount to, in virtual time.
const ROUNDING: i64 = 4;

/// Policy `eevdf`: fair shares by weight, with bounded lag.
#[derive(Debug)]
pub struct Eevdf {
    /// The slice.
    quantum: Option<Time>,
    nodes: Nodes,
    attributes: AttributeTable,
    workers: Table<CachePadded<Worker>>,
    looks: Looks,
    moves: Moves,
    tasks: Table<AtomicU64>,
    deadlines: Table<AtomicU64>,
}

/// The words are accessed relaxed, under the lock, but for `queued`.
#[derive(Debug)]
struct Worker {
    spin: Spin,
    /// By deadline.
    eligible: Heap,
    /// By virtual time.
    early: Heap,
    /// How many tasks wait in both; written under the lock.
    queued: AtomicUsize,
    /// Near the average; times are summed relative to it.
    base: AtomicU64,
    /// The sum of weight times (virtual time less base), over queued and running tasks; an `i64`.
    sum: AtomicU64,
    /// The sum of weights.
    load: AtomicU64,
    /// What runs, as its number plus one, and since when: its virtual time is that of its dispatch.
    running: AtomicU32,
    since: AtomicU64,
    /// The earliest deadline of those that were created or woken since then and were eligible.
    challenger: AtomicU64,
}

impl Worker {
    fn sum(&self) -> i64 {
        self.sum.load(Relaxed) as i64
    }

    fn add(&self, weight: u64, time: u64, sign: i64) {
        let base = self.base.load(Relaxed);
        let change = (time.wrapping_sub(base) as i64).saturating_mul(weight as i64) * sign;
        self.sum.store(self.sum().wrapping_add(change) as u64, Relaxed);
        self.load.store(self.load.load(Relaxed).wrapping_add_signed(weight as i64 * sign), Relaxed);
    }

    /// Under the lock.
    fn dispatch(&self, task: Task, now: Time) -> Pick {
        self.running.store(task.0 + 1, Relaxed);
        self.since.store(now, Relaxed);
        self.challenger.store(u64::MAX, Relaxed);
        Pick { task, class: Class::Fresh }
    }

    /// The average virtual time; moves the base there.
    fn average(&self) -> u64 {
        let (sum, load) = (self.sum(), self.load.load(Relaxed) as i64);
        if load == 0 {
            return self.base.load(Relaxed);
        }
        let step = sum.div_euclid(load);
        let base = self.base.load(Relaxed).wrapping_add_signed(step);
        self.base.store(base, Relaxed);
        self.sum.store((sum - step * load) as u64, Relaxed);
        base
    }

    /// The average with what the running task has gained since its dispatch, which is not in the
    /// sum yet: weight times (time / weight).
    fn average_at(&self, now: Time) -> u64 {
        let ran = match self.running.load(Relaxed) {
            0 => 0,
            _ => now.saturating_sub(self.since.load(Relaxed)),
        };
        let gained = ran.saturating_mul(UNIT) / self.load.load(Relaxed).max(1);
        self.average().saturating_add(gained)
    }
}

impl Eevdf {
    /// For `workers` workers and the tasks `0..max_tasks`. `quantum`: the slice in the host's unit;
    /// `None`: never preempt, and slices of one unit of time.
    ///
    /// # Panics
    ///
    /// As [`Nodes::new`].
    pub fn new(workers: usize, max_tasks: u32, quantum: Option<Time>) -> Self {
        let worker = || Worker {
            spin: Spin::default(),
            eligible: Heap::new(),
            early: Heap::new(),
            queued: AtomicUsize::new(0),
            base: AtomicU64::new(START),
            sum: AtomicU64::new(0),
            load: AtomicU64::new(0),
            running: AtomicU32::new(0),
            since: AtomicU64::new(0),
            challenger: AtomicU64::new(u64::MAX),
        };
        Eevdf {
            quantum,
            nodes: Nodes::new(max_tasks),
            attributes: AttributeTable::new(max_tasks),
            workers: Table::of(workers, |_| CachePadded(worker())),
            looks: Looks::new(workers),
            moves: Moves::new(workers),
            tasks: table::zeroed_u64(max_tasks),
            deadlines: table::zeroed_u64(max_tasks),
        }
    }

    fn weight(&self, task: Task) -> u64 {
        u64::from(self.attributes.weight(task))
    }

    /// A slice in the task's virtual time.
    fn slice(&self, weight: u64) -> u64 {
        (self.quantum.unwrap_or(1).saturating_mul(UNIT) / weight).max(1)
    }

    /// Queued or running: the virtual time. Neither: the lag, an `i64`.
    fn time(&self, task: Task) -> &AtomicU64 {
        &self.tasks[task.0 as usize]
    }

    /// Queued or running: the virtual deadline. Neither: how far it is from the virtual time, 0 for
    /// a new slice.
    fn deadline(&self, task: Task) -> &AtomicU64 {
        &self.deadlines[task.0 as usize]
    }

    /// Put a task in, with the lag it has. Under the worker's lock.
    fn settle(&self, me: &Worker, task: Task, now: Time) -> (u64, u64) {
        let (weight, load) = (self.weight(task), me.load.load(Relaxed));
        let average = me.average_at(now);
        let lag = self.time(task).load(Relaxed) as i64;
        let most = 2 * self.slice(weight).min(1 << 40) as i64;
        let lag = lag.clamp(-most, most);
        // The task's own weight will draw the average towards it and shrink the lag.
        let grown = match load {
            0 => 0,
            load => (i128::from(lag) * i128::from(load + weight) / i128::from(load)) as i64,
        };
        let time = average.wrapping_add_signed(-grown);
        let left = match self.deadline(task).load(Relaxed) {
            0 => self.slice(weight),
            left => left,
        };
        let deadline = time.wrapping_add(left);
        self.time(task).store(time, Relaxed);
        self.deadline(task).store(deadline, Relaxed);
        me.add(weight, time, 1);
        (time, deadline)
    }

    /// Take a task out that is in neither heap, and keep its lag. Under the worker's lock.
    fn unsettle(&self, me: &Worker, task: Task, now: Time) {
        let (time, average) = (self.time(task).load(Relaxed), me.average_at(now));
        me.add(self.weight(task), time, -1);
        let left = self.deadline(task).load(Relaxed).saturating_sub(time);
        self.time(task).store(average.wrapping_sub(time), Relaxed);
        self.deadline(task).store(left, Relaxed);
    }

    fn queue(&self, worker: usize, task: Task, why: Why, now: Time) {
        let me = &self.workers[worker];
        let _guard = me.spin.lock();
        if matches!(why, Why::New | Why::Woken) {
            self.deadline(task).store(0, Relaxed);
        }
        let (time, deadline) = self.settle(me, task, now);
        if time <= me.average_at(now) {
            if matches!(why, Why::New | Why::Woken) {
                me.challenger.store(me.challenger.load(Relaxed).min(deadline), Relaxed);
            }
            me.eligible.push(&self.nodes, task, deadline);
        } else {
            me.early.push(&self.nodes, task, time);
        }
        me.queued.store(me.queued.load(Relaxed) + 1, Release);
    }

    /// Take the next task of `worker`; its share of sum and load stays. Under the worker's lock.
    fn take(&self, me: &Worker, now: Time) -> Option<Task> {
        self.promote(me, now);
        let (task, _) = me.eligible.pop(&self.nodes).or_else(|| me.early.pop(&self.nodes))?;
        me.queued.store(me.queued.load(Relaxed) - 1, Release);
        Some(task)
    }

    /// Move the tasks that have become eligible. Under the worker's lock.
    fn promote(&self, me: &Worker, now: Time) {
        let average = me.average_at(now);
        while let Some((task, _)) = me.early.pop_if(&self.nodes, |time| time <= average) {
            me.eligible.push(&self.nodes, task, self.deadline(task).load(Relaxed));
        }
    }

    /// The weights of what `worker` has, waiting and running. From anywhere.
    fn load(&self, worker: usize) -> u64 {
        self.workers[worker].load.load(Relaxed)
    }

    /// The weight of a task that `worker` would give away first. From anywhere.
    fn first(&self, worker: usize) -> Option<u64> {
        let me = &self.workers[worker];
        let first = me.eligible.peek().or_else(|| me.early.peek());
        first.map(|task| self.weight(task))
    }

    /// Take the next task of another worker out of its account.
    fn take_from(&self, other: usize, now: Time) -> Option<Task> {
        let there = &self.workers[other];
        let _guard = there.spin.lock();
        let task = self.take(there, now)?;
        self.unsettle(there, task, now);
        Some(task)
    }

    /// Take tasks from workers that have more. That worker only.
    fn even_out(&self, worker: usize, now: Time) {
        for _ in 0..MOST_MOVED {
            let Some(other) = self.looks.heavier(worker, |w| self.load(w), |w| self.first(w))
            else {
                return;
            };
            let moved = self.moves.during(worker, || {
                let task = self.take_from(other, now)?;
                self.queue(worker, task, Why::Preempted, now);
                Some(())
            });
            if moved.is_none() {
                return;
            }
        }
    }

    /// After how long the running task would not be chosen again at the end of a slice. Under the
    /// worker's lock.
    fn loses_after(&self, me: &Worker, task: Task, slice: u64) -> Time {
        let (weight, load) = (self.weight(task), me.load.load(Relaxed));
        let (time, deadline) = (self.time(task).load(Relaxed), self.deadline(task).load(Relaxed));
        let average = me.average();
        let earliest = me.eligible.least();
        let first = earliest.map(|earliest| earliest.max(me.challenger.load(Relaxed)));
        if first.is_some_and(|first| first < deadline) {
            return 0;
        }
        let span = |virtually: i64| (virtually.max(0) as u64).saturating_mul(weight).div_ceil(UNIT);
        // Its lag is used up: it gains on the average, which moves too, at the rate 1/weight -
        // 1/load.
        let lag = average.wrapping_sub(time) as i64 + ROUNDING;
        let others = load.saturating_sub(weight).max(1);
        let ineligible = (u128::from(span(lag)) * u128::from(load) / u128::from(others))
            .min(u128::from(u64::MAX)) as u64;
        // With a new slice its deadline is later than that of a task that is eligible, or will be
        // by then.
        let later = |deadline: u64| {
            span(deadline.wrapping_sub(self.slice(weight)).wrapping_sub(time) as i64)
        };
        let for_eligible = earliest.map(later);
        let for_early = me.early.peek().map(|next| {
            let until = self.time(next).load(Relaxed).wrapping_sub(average) as i64;
            let eligible = (until.max(0) as u64).saturating_mul(load).div_ceil(UNIT);
            later(self.deadline(next).load(Relaxed)).max(eligible)
        });
        let loses = [for_eligible, for_early].into_iter().flatten().fold(ineligible, Time::min);
        let end_of_slice = span(deadline.wrapping_sub(time) as i64);
        let more = loses.saturating_sub(end_of_slice).div_ceil(slice);
        end_of_slice.saturating_add(more.saturating_mul(slice))
    }
}

impl Policy for Eevdf {
    fn name(&self) -> &'static str {
        "eevdf"
    }

    fn task_init(&self, task: Task, attributes: &Attributes, _now: Time) {
        self.attributes.set(task, attributes);
        self.time(task).store(0, Relaxed);
        self.deadline(task).store(0, Relaxed);
    }

    fn task_enqueue(&self, place: Place, task: Task, why: Why, now: Time) {
        match place {
            Place::Local(worker) => self.queue(worker, task, why, now),
            Place::Shared => {
                let workers = 0..self.workers.len();
                let least = workers.min_by_key(|&worker| self.load(worker)).unwrap_or(0);
                self.queue(least, task, why, now);
            }
        }
    }

    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        if self.looks.is_due(worker, now, self.quantum) {
            self.even_out(worker, now);
        }
        let me = &self.workers[worker];
        let _guard = me.spin.lock();
        let task = self.take(me, now)?;
        Some(me.dispatch(task, now))
    }

    fn task_stopped(&self, worker: usize, task: Task, ran: Time) {
        let me = &self.workers[worker];
        let _guard = me.spin.lock();
        // The host may have dispatched the next one before it settles the account of this one.
        if me.running.load(Relaxed) == task.0 + 1 {
            me.running.store(0, Relaxed);
        }
        let weight = self.weight(task);
        let before = self.time(task).load(Relaxed);
        let time = before.saturating_add(ran.saturating_mul(UNIT) / weight);
        me.add(weight, before, -1);
        me.add(weight, time, 1);
        self.time(task).store(time, Relaxed);
        if time >= self.deadline(task).load(Relaxed) {
            self.deadline(task).store(time.saturating_add(self.slice(weight)), Relaxed);
        }
        self.unsettle(me, task, 0);
    }

    fn accounts(&self) -> bool {
        true
    }

    fn balance(&self, worker: usize, now: Time) -> Option<Pick> {
        loop {
            let others = (0..self.workers.len()).filter(|&other| other != worker);
            let queued = |other: usize| self.workers[other].queued.load(Acquire);
            let longest = others.max_by_key(|&other| queued(other))?;
            if queued(longest) == 0 {
                return None;
            }
            // Somebody may be faster; then another queue may be the longest.
            let Some(task) = self.take_from(longest, now) else { continue };
            let me = &self.workers[worker];
            let pick = {
                let _guard = me.spin.lock();
                self.settle(me, task, now);
                me.dispatch(task, now)
            };
            self.even_out(worker, now);
            return Some(pick);
        }
    }

    /// Each goes to the one of the others that has least.
    fn worker_lost(&self, worker: usize, now: Time) -> usize {
        let others = || (0..self.workers.len()).filter(|&other| other != worker);
        let least = || others().min_by_key(|&other| self.load(other));
        let moved = core::iter::from_fn(|| {
            let least = least()?;
            Some((least, self.take_from(worker, now)?))
        });
        let most = self.workers[worker].queued.load(Acquire);
        moved.take(most).map(|(to, task)| self.queue(to, task, Why::Preempted, now)).count()
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let slice = self.quantum?;
        let me = &self.workers[worker];
        // What a timer wakes has about the average virtual time: the running task has a slice
        // first.
        let end = running.since.saturating_add(slice);
        let for_timer = timer.map(|timer| end.max(timer));
        if me.queued.load(Acquire) == 0 {
            let is_heavier =
                |other| looks::is_heavier(worker, other, |w| self.load(w), |w| self.first(w));
            let more = self.looks.any_has_more(worker, is_heavier);
            let look = more.then(|| self.looks.stop_at(worker, running, slice));
            return [look, for_timer].into_iter().flatten().min();
        }
        let after = {
            let _guard = me.spin.lock();
            self.promote(me, running.since);
            self.loses_after(me, running.task, slice)
        };
        let for_waiting = running.since.saturating_add(after);
        Some(for_timer.map_or(for_waiting, |timer| timer.min(for_waiting)))
    }

    fn has_work(&self, _worker: usize) -> bool {
        self.moves.any_waiting(|| self.workers.iter().any(|w| w.queued.load(Acquire) > 0))
    }

    fn waiting(&self) -> usize {
        self.workers.iter().map(|w| w.queued.load(Acquire)).sum()
    }
}
