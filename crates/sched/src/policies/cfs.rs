//! Completely fair scheduling, as in Linux before 6.6.
//!
//! * Each task has a *virtual runtime*: the time it has run, divided by its weight. Each worker has a queue in
//!   the order of virtual runtime; the smallest runs next (Skyloft section 5.1, Table 5).
//! * A task's *slice* is its share, by weight, of `latency`, but not less than `quantum` (Linux: `sched_latency` and
//!   `min_granularity`). A running task stops when it has used its slice and its virtual runtime is not below that of one
//!   that waits; and already after `quantum` if it is ahead of one by more than `quantum`, as of one that was woken.
//!   So slices get shorter with every task that waits, until they are `quantum`: that bounds what preemption may cost.
//! * A worker's *least* virtual runtime is that of the running task as it goes on, or of the first that waits if that is
//!   less (Linux: `min_vruntime`). A new task begins with it. A woken one keeps its own, but is not put further back
//!   than half a `latency` before the least: sleep gives some credit, and long sleep not more than that. This is the
//!   compensation for blocked tasks that makes CFS better than round robin in Skyloft's Fig. 5.
//! * Work from elsewhere is shared out: at a dispatch a worker takes its part of the shared list into its own queue. A
//!   worker without work takes the first task of the longest queue; virtual runtimes are taken over relative to the
//!   least of the queues.

use alloc::boxed::Box;

use crate::{
    AttributeTable, Attributes, Class, DEFAULT_WEIGHT, Pick, Place, Policy, Running, Task, Time,
    Why,
    queue::{Heap, Links, List, Nodes},
    sync::{AtomicU32, AtomicU64, CachePadded, Ordering::Relaxed},
    table,
};

/// Virtual runtimes begin here, so that credit can go below.
const START: u64 = 1 << 48;
/// A worker takes at most so many shared tasks at a dispatch.
const MOST_SHARED: usize = 16;

/// Policy `cfs`: fair shares by weight.
#[derive(Debug)]
pub struct Cfs {
    quantum: Option<Time>,
    latency: Time,
    nodes: Nodes,
    links: Links,
    attributes: AttributeTable,
    shared: List,
    workers: Box<[CachePadded<Worker>]>,
    /// Virtual runtime, in the terms of the worker that the task was last on.
    runtime: Box<[AtomicU64]>,
    /// That worker's number plus one; 0: the task has not run yet.
    home: Box<[AtomicU32]>,
}

#[derive(Debug)]
struct Worker {
    queue: Heap,
    /// The least virtual runtime as it was last settled, never going back; see [`Cfs::least`].
    least: AtomicU64,
    /// What runs, as its number plus one, and since when. Its virtual runtime is that of its dispatch.
    running: AtomicU32,
    since: AtomicU64,
    /// The weights of the queued tasks together.
    load: AtomicU64,
}

impl Cfs {
    /// For `workers` workers and the tasks `0..max_tasks`. Times are in the host's unit; `quantum`: the shortest slice,
    /// `None`: never preempt.
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
            links: Links::new(max_tasks),
            attributes: AttributeTable::new(max_tasks),
            shared: List::new(),
            workers: (0..workers).map(|_| CachePadded(worker())).collect(),
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

    /// The worker's least virtual runtime at this moment. From anywhere; from elsewhere it may be a little old.
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

    fn queue(&self, worker: usize, task: Task, why: Why, now: Time) {
        let me = &self.workers[worker];
        self.advance(worker, now);
        let mut runtime = self.runtime_on(worker, task, now);
        if matches!(why, Why::New | Why::Woken) {
            runtime = runtime.max(me.least.load(Relaxed) - self.latency.min(START) / 2);
        }
        self.settle(worker, task, runtime);
        me.load.fetch_add(self.weight(task), Relaxed);
        me.queue.push(&self.nodes, task, runtime);
    }

    fn settle(&self, worker: usize, task: Task, runtime: u64) {
        self.runtime[task.0 as usize].store(runtime, Relaxed);
        self.home[task.0 as usize].store(worker as u32 + 1, Relaxed);
    }

    /// Take the worker's part of what came from elsewhere.
    fn share_out(&self, worker: usize, now: Time) {
        let part = self.shared.len().div_ceil(self.workers.len()).min(MOST_SHARED);
        self.shared.move_to(&self.links, part, |task| self.queue(worker, task, Why::Woken, now));
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
            Place::Local(worker) => self.queue(worker, task, why, now),
            Place::Shared => self.shared.push(&self.links, task),
        }
    }

    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        self.share_out(worker, now);
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
                return Some(self.dispatch(worker, task, runtime, now));
            }
        }
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
        let least = me.least.load(Relaxed);
        let shared = (!self.shared.is_empty()).then_some(least);
        let waiting = me.queue.least().into_iter().chain(shared).min();
        let for_timer = timer.map(|timer| stop_for(least).max(timer));
        waiting.map(stop_for).into_iter().chain(for_timer).min()
    }

    fn has_work(&self, _worker: usize) -> bool {
        !self.shared.is_empty() || self.workers.iter().any(|worker| !worker.queue.is_empty())
    }

    fn waiting(&self) -> usize {
        self.shared.len() + self.workers.iter().map(|worker| worker.queue.len()).sum::<usize>()
    }
}
