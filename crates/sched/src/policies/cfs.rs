//! Completely fair scheduling, as in Linux before 6.6.
//!
//! * Each task has a *virtual runtime*: the time it has run, divided by its weight. Each worker has
//!   a queue in the order of virtual runtime; the smallest runs next (Skyloft section 5.1, Table
//!   5).
//! * A task's *slice* is its share, by weight, of `latency`, but not less than `quantum` (Linux:
//!   `sched_latency` and `min_granularity`). A running task stops when it has used its slice and
//!   its virtual runtime is not below that of one that waits; and already after `quantum` if it is
//!   ahead of one by more than `quantum`, as of one that was woken. So slices get shorter with
//!   every task that waits, until they are `quantum`: that bounds what preemption may cost.
//! * A worker's *least* virtual runtime is that of the running task as it goes on, or of the first
//!   that waits if that is less (Linux: `min_vruntime`). A new task begins with it. A woken one
//!   keeps its own, but is not put further back than half a `latency` before the least: sleep gives
//!   some credit, and long sleep not more than that. This is the compensation for blocked tasks
//!   that makes CFS better than round robin in Skyloft's Fig. 5.
//! * Work from elsewhere goes to the worker with the least load, the sum of weights. A worker
//!   without work, and one that finds after a while that another has more (`looks`), takes tasks
//!   from the one with the greatest load while that makes the loads more alike. Virtual runtimes
//!   are taken over relative to the least of the queues.

use crate::{
    AttributeTable, Attributes, Class, DEFAULT_WEIGHT, Pick, Place, Policy, Running, Task, Time,
    Why,
    policies::looks::{self, Looks},
    queue::{Heap, Moves, Nodes},
    sync::{AtomicU32, AtomicU64, CachePadded, Ordering::Relaxed},
    table::{self, Table},
};

/// Virtual runtimes begin here, so that credit can go below.
const START: u64 = 1 << 48;

/// A worker takes at most so many tasks at once from others.
const MOST_MOVED: usize = 64;

/// Policy `cfs`: fair shares by weight.
#[derive(Debug)]
pub struct Cfs {
    quantum: Option<Time>,
    latency: Time,
    nodes: Nodes,
    attributes: AttributeTable,
    workers: Table<CachePadded<Worker>>,
    looks: Looks,
    moves: Moves,
    /// Virtual runtime, in the terms of the worker that the task was last on.
    runtime: Table<AtomicU64>,
    /// That worker's number plus one; 0: the task has not run yet.
    home: Table<AtomicU32>,
}

#[derive(Debug)]
struct Worker {
    queue: Heap,
    /// The least virtual runtime as it was last settled, never going back; see [`Cfs::least`].
    least: AtomicU64,
    /// What runs, as its number plus one, and since when. Its virtual runtime is that of its
    /// dispatch.
    running: AtomicU32,
    since: AtomicU64,
    /// The weights of the queued tasks together.
    load: AtomicU64,
}

impl Cfs {
    /// For `workers` workers and the tasks `0..max_tasks`. Times are in the host's unit; `quantum`:
    /// the shortest slice, `None`: never preempt.
    ///
    /// # Panics
    ///
    /// As [`Nodes::new`].
    pub fn new(workers: usize, max_tasks: u32, quantum: Option<Time>, latency: Time) -> Self {
        let worker = || Worker {
            queue: Heap::new(),
            least: AtomicU64::new(START),
            running: AtomicU32::new(0),
            since: AtomicU64::new(0),
            load: AtomicU64::new(0),
        };
        Cfs {
            quantum,
            latency,
            nodes: Nodes::new(max_tasks),
            attributes: AttributeTable::new(max_tasks),
            workers: Table::of(workers, |_| CachePadded(worker())),
            looks: Looks::new(workers),
            moves: Moves::new(workers),
            runtime: table::zeroed_u64(max_tasks),
            home: table::zeroed_u32(max_tasks),
        }
    }

    fn weight(&self, task: Task) -> u64 {
        u64::from(self.attributes.weight(task))
    }

    /// Running time in virtual time.
    fn virtually(&self, task: Task, ran: Time) -> u64 {
        ran.saturating_mul(u64::from(DEFAULT_WEIGHT)) / self.weight(task)
    }

    /// The worker's least virtual runtime at this moment. From anywhere; from elsewhere it may be a
    /// little old.
    fn least(&self, worker: usize, now: Time) -> u64 {
        let me = &self.workers[worker];
        let running = me.running.load(Relaxed).checked_sub(1).map(|task| {
            let ran = now.saturating_sub(me.since.load(Relaxed));
            let before = self.runtime[task as usize].load(Relaxed);
            before.saturating_add(self.virtually(Task(task), ran))
        });
        let smallest = running.into_iter().chain(me.queue.least()).min();
        me.least.load(Relaxed).max(smallest.unwrap_or(0))
    }

    /// Settle the least virtual runtime. That worker only.
    fn advance(&self, worker: usize, now: Time) {
        self.workers[worker].least.store(self.least(worker, now), Relaxed);
    }

    /// The task's virtual runtime in the terms of `worker`.
    fn runtime_on(&self, worker: usize, task: Task, now: Time) -> u64 {
        let runtime = self.runtime[task.0 as usize].load(Relaxed);
        match self.home[task.0 as usize].load(Relaxed) as usize {
            0 => self.least(worker, now),
            home if home - 1 == worker => runtime,
            home => {
                let there = self.least(home - 1, now);
                self.least(worker, now).wrapping_add(runtime.wrapping_sub(there))
            }
        }
    }

    /// Queue a task at `worker`. From anywhere.
    fn queue(&self, worker: usize, task: Task, why: Why, now: Time) {
        let me = &self.workers[worker];
        let mut runtime = self.runtime_on(worker, task, now);
        if matches!(why, Why::New | Why::Woken) {
            runtime = runtime.max(self.least(worker, now) - self.latency.min(START) / 2);
        }
        self.settle(worker, task, runtime);
        me.load.fetch_add(self.weight(task), Relaxed);
        me.queue.push(&self.nodes, task, runtime);
    }

    fn settle(&self, worker: usize, task: Task, runtime: u64) {
        self.runtime[task.0 as usize].store(runtime, Relaxed);
        self.home[task.0 as usize].store(worker as u32 + 1, Relaxed);
    }

    /// The weights of what `worker` has, waiting and running. From anywhere.
    fn load(&self, worker: usize) -> u64 {
        let me = &self.workers[worker];
        let running = me.running.load(Relaxed).checked_sub(1);
        me.load.load(Relaxed) + running.map_or(0, |task| self.weight(Task(task)))
    }

    /// The weight of the first task that waits at `worker`. From anywhere.
    fn first(&self, worker: usize) -> Option<u64> {
        self.workers[worker].queue.peek().map(|task| self.weight(task))
    }

    /// Take tasks from workers that have more. That worker only.
    fn even_out(&self, worker: usize, now: Time) {
        for _ in 0..MOST_MOVED {
            let Some(other) = self.looks.heavier(worker, |w| self.load(w), |w| self.first(w))
            else {
                return;
            };
            let moved = self.moves.during(worker, || {
                let (task, _) = self.pop(other)?;
                self.queue(worker, task, Why::Preempted, now);
                Some(())
            });
            if moved.is_none() {
                return;
            }
        }
    }

    fn pop(&self, worker: usize) -> Option<(Task, u64)> {
        let me = &self.workers[worker];
        let (task, runtime) = me.queue.pop(&self.nodes)?;
        me.load.fetch_sub(self.weight(task), Relaxed);
        Some((task, runtime))
    }

    fn dispatch(&self, worker: usize, task: Task, runtime: u64, now: Time) -> Pick {
        let me = &self.workers[worker];
        me.least.store(me.least.load(Relaxed).max(runtime), Relaxed);
        me.since.store(now, Relaxed);
        me.running.store(task.0 + 1, Relaxed);
        Pick { task, class: Class::Fresh }
    }
}

impl Policy for Cfs {
    fn name(&self) -> &'static str {
        "cfs"
    }

    fn task_init(&self, task: Task, attributes: &Attributes, _now: Time) {
        self.attributes.set(task, attributes);
        self.home[task.0 as usize].store(0, Relaxed);
    }

    fn task_enqueue(&self, place: Place, task: Task, why: Why, now: Time) {
        match place {
            Place::Local(worker) => {
                self.advance(worker, now);
                self.queue(worker, task, why, now);
            }
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
        self.advance(worker, now);
        let (task, runtime) = self.pop(worker)?;
        Some(self.dispatch(worker, task, runtime, now))
    }

    fn task_stopped(&self, worker: usize, task: Task, ran: Time) {
        let me = &self.workers[worker];
        let before = self.runtime_on(worker, task, 0);
        let runtime = before.saturating_add(self.virtually(task, ran));
        self.settle(worker, task, runtime);
        // The host may have dispatched the next one before it settles the account of this one.
        if me.running.load(Relaxed) == task.0 + 1 {
            me.running.store(0, Relaxed);
            let smallest = me.queue.least().map_or(runtime, |first| first.min(runtime));
            me.least.store(me.least.load(Relaxed).max(smallest), Relaxed);
        }
    }

    fn accounts(&self) -> bool {
        true
    }

    fn balance(&self, worker: usize, now: Time) -> Option<Pick> {
        loop {
            let others = (0..self.workers.len()).filter(|&other| other != worker);
            let longest = others.max_by_key(|&other| self.workers[other].queue.len())?;
            if self.workers[longest].queue.is_empty() {
                return None;
            }
            // Somebody may be faster; then another queue may be the longest.
            if let Some((task, _)) = self.pop(longest) {
                let runtime = self.runtime_on(worker, task, now);
                self.settle(worker, task, runtime);
                let pick = self.dispatch(worker, task, runtime, now);
                self.even_out(worker, now);
                return Some(pick);
            }
        }
    }

    /// Each goes to the one of the others that has least.
    fn worker_lost(&self, worker: usize, now: Time) -> usize {
        let others = || (0..self.workers.len()).filter(|&other| other != worker);
        let least = || others().min_by_key(|&other| self.load(other));
        let moved = core::iter::from_fn(|| {
            let least = least()?;
            Some((least, self.pop(worker).map(|(task, _)| task)?))
        });
        let most = self.workers[worker].queue.len();
        moved.take(most).map(|(to, task)| self.queue(to, task, Why::Preempted, now)).count()
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let quantum = self.quantum?;
        let me = &self.workers[worker];
        let weight = self.weight(running.task);
        let all = weight.saturating_add(me.load.load(Relaxed));
        let slice = (self.latency.saturating_mul(weight) / all).max(quantum);
        let runtime = self.runtime_on(worker, running.task, running.since);
        // When the running task's virtual runtime reaches `other`.
        let reaches = |other: u64| {
            other.saturating_sub(runtime).saturating_mul(weight).div_ceil(u64::from(DEFAULT_WEIGHT))
        };
        let stop_for = |other: u64| {
            let at_slice = slice.max(reaches(other));
            let ahead = quantum.max(reaches(other.saturating_add(quantum)));
            running.since.saturating_add(at_slice.min(ahead))
        };
        let first = me.queue.least();
        let for_timer = timer.map(|timer| stop_for(me.least.load(Relaxed)).max(timer));
        let is_heavier =
            |other| looks::is_heavier(worker, other, |w| self.load(w), |w| self.first(w));
        let for_look = || {
            let more = self.looks.any_has_more(worker, is_heavier);
            more.then(|| self.looks.stop_at(worker, running, quantum))
        };
        let for_others = first.map_or_else(for_look, |first| Some(stop_for(first)));
        for_others.into_iter().chain(for_timer).min()
    }

    fn has_work(&self, _worker: usize) -> bool {
        self.moves.any_waiting(|| self.workers.iter().any(|worker| !worker.queue.is_empty()))
    }

    fn waiting(&self) -> usize {
        self.workers.iter().map(|worker| worker.queue.len()).sum()
    }
}
