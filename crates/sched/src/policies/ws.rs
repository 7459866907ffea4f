//! Work stealing with a quantum.
//!
//! * Each worker has a queue; a shared one takes what comes from elsewhere. Both are first in,
//!   first out.
//! * A worker takes from its own queue, then from the shared one; in the other order at every 31st
//!   dispatch, and when a task has just been preempted or has yielded, so that own and shared queue
//!   take turns (`turns`). It takes shared tasks one at a time: the oldest goes to whoever is free
//!   first.
//! * If both are empty it visits all other workers from a random one on and steals the older half
//!   of the first queue that has tasks (the `sched_balance` of Skyloft section 3.4; Aspen section
//!   3.2).
//! * A running task stops when its quantum is used and something waits in its worker's queue or the
//!   shared one. Preempted and yielding tasks go to the tail of the worker's queue.
//! * From time to time a worker evens out with the one that has most (`looks`).
//!
//! Why other workers' queues do not count for preemption: each such task waits behind a worker that
//! will stop at the end of its own quantum and take it. If it counted for everybody, one waiting
//! task would interrupt all workers, and all but one in vain.

use crate::{
    Class, Pick, Place, Policy, Running, Task, Time, Why,
    policies::{looks::Looks, stop_at, turns::Turns},
    queue::{Links, List, WorkerQueues},
    sync::CachePadded,
    table::Table,
};

/// Policy `ws`: a queue for each worker, a shared one, stealing, and a quantum.
#[derive(Debug)]
pub struct WorkStealing {
    quantum: Option<Time>,
    links: Links,
    shared: List,
    queues: WorkerQueues,
    turns: Table<CachePadded<Turns>>,
    looks: Looks,
}

impl WorkStealing {
    /// For `workers` workers and the tasks `0..max_tasks`. `quantum` is in the host's unit; `None`:
    /// never preempt.
    ///
    /// # Panics
    ///
    /// If `workers` is 0, and as [`Links::new`].
    pub fn new(workers: usize, max_tasks: u32, quantum: Option<Time>) -> Self {
        WorkStealing {
            quantum,
            links: Links::new(max_tasks),
            shared: List::new(),
            queues: WorkerQueues::new(workers),
            turns: Table::of(workers, |_| CachePadded(Turns::new())),
            looks: Looks::new(workers),
        }
    }

    fn pick(&self, worker: usize, task: Option<Task>) -> Option<Pick> {
        self.looks.chosen(worker, task);
        Some(Pick { task: task?, class: Class::Fresh })
    }
}

impl Policy for WorkStealing {
    fn name(&self) -> &'static str {
        "ws"
    }

    fn task_enqueue(&self, place: Place, task: Task, why: Why, _now: Time) {
        match place {
            Place::Local(worker) => {
                if matches!(why, Why::Preempted | Why::Yielded) {
                    self.turns[worker].give_way(self.queues.is_empty(worker));
                }
                self.looks.queued(worker, task);
                self.queues.push(worker, &self.links, task);
            }
            Place::Shared => self.shared.push(&self.links, task),
        }
    }

    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        if self.looks.is_due(worker, now, self.quantum) {
            self.queues.even_out(worker, &self.links, self.looks.running(worker));
        }
        let own = || self.queues.pop(worker, &self.links);
        let shared = || self.shared.pop(&self.links);
        self.pick(worker, self.turns[worker].take(own, shared))
    }

    fn balance(&self, worker: usize, _now: Time) -> Option<Pick> {
        self.pick(worker, self.queues.steal(worker, &self.links))
    }

    fn glance(&self, worker: usize, _now: Time) -> Option<Pick> {
        let victim = self.queues.victims(worker).next()?;
        self.pick(worker, self.queues.steal_from(victim, worker, &self.links))
    }

    /// They become shared ones.
    fn worker_lost(&self, worker: usize, _now: Time) -> usize {
        if self.queues.workers() == 1 {
            return 0;
        }
        self.queues.move_all(worker, &self.links, |task| self.shared.push(&self.links, task))
    }

    fn grants_quantum(&self) -> bool {
        true
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let quantum = self.quantum?;
        let waiting = !self.queues.is_empty(worker) || !self.shared.is_empty();
        let at = stop_at(running, quantum, waiting, timer);
        if waiting || !self.looks.any_has_more(worker, |other| self.queues.len(other) >= 2) {
            return at;
        }
        let look = self.looks.stop_at(worker, running, quantum);
        Some(at.map_or(look, |at| at.min(look)))
    }

    fn has_work(&self, _worker: usize) -> bool {
        !self.shared.is_empty() || self.queues.any_waiting()
    }

    fn has_work_at_hand(&self, worker: usize) -> bool {
        !self.shared.is_empty() || !self.queues.is_empty(worker)
    }

    fn waiting(&self) -> usize {
        self.shared.len() + self.queues.total()
    }
}
