//! Least attained service (foreground-background).
//!
//! * Whoever has had the least service since it was created or woken runs next. Among equals: first
//!   in, first out.
//! * A running task stops when it has used its quantum *and* has had as much service as one that
//!   waits. So a new task waits for one quantum at most, and tasks that have had the same service
//!   take turns.
//! * One queue, shared by all workers.
//!
//! Without knowing service times in advance this is the best order for the mean latency when long
//! tasks are likely to stay long (decreasing hazard rate: exponential mixtures, Pareto), and close
//! to shortest-remaining-time-first there. The papers do not have it; Aspen's two queues (section
//! 3.2) are its coarsest form, with two levels of attained service. A very long task waits while
//! shorter ones keep the workers busy, as under any such order.

use crate::{
    Class, Pick, Place, Policy, Running, Task, Time, Why,
    queue::{Heap, Nodes},
    sync::{AtomicU64, Ordering::Relaxed},
    table::{self, Table},
};

/// Policy `las`: least attained service first.
#[derive(Debug)]
pub struct LeastAttained {
    quantum: Option<Time>,
    nodes: Nodes,
    queue: Heap,
    /// Service since creation or wake-up.
    attained: Table<AtomicU64>,
}

impl LeastAttained {
    /// For tasks `0..max_tasks` and any number of workers. `quantum` is in the host's unit; `None`:
    /// never preempt.
    ///
    /// # Panics
    ///
    /// As [`Nodes::new`].
    pub fn new(max_tasks: u32, quantum: Option<Time>) -> Self {
        LeastAttained {
            quantum,
            nodes: Nodes::new(max_tasks),
            queue: Heap::new(),
            attained: table::zeroed_u64(max_tasks),
        }
    }

    fn attained(&self, task: Task) -> &AtomicU64 {
        &self.attained[task.0 as usize]
    }
}

impl Policy for LeastAttained {
    fn name(&self) -> &'static str {
        "las"
    }

    fn task_enqueue(&self, _place: Place, task: Task, why: Why, _now: Time) {
        if matches!(why, Why::New | Why::Woken) {
            self.attained(task).store(0, Relaxed);
        }
        self.queue.push(&self.nodes, task, self.attained(task).load(Relaxed));
    }

    fn task_dequeue(&self, _worker: usize, _now: Time) -> Option<Pick> {
        let (task, attained) = self.queue.pop(&self.nodes)?;
        let class = if attained == 0 { Class::Fresh } else { Class::Preempted };
        Some(Pick { task, class })
    }

    fn task_stopped(&self, _worker: usize, task: Task, ran: Time) {
        let attained = self.attained(task);
        attained.store(attained.load(Relaxed).saturating_add(ran), Relaxed);
    }

    fn accounts(&self) -> bool {
        true
    }

    fn central(&self) -> bool {
        true
    }

    fn balance(&self, _worker: usize, _now: Time) -> Option<Pick> {
        None
    }

    fn grants_quantum(&self) -> bool {
        true
    }

    fn preempt_at(&self, _worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let quantum = self.quantum?;
        let end = |span: Time| running.since.saturating_add(span.max(quantum));
        let had = self.attained(running.task).load(Relaxed);
        let for_waiting = self.queue.least().map(|least| end(least.saturating_sub(had)));
        // What a timer wakes has had nothing yet.
        let for_timer = timer.map(|timer| end(0).max(timer));
        [for_waiting, for_timer].into_iter().flatten().min()
    }

    fn has_work(&self, _worker: usize) -> bool {
        !self.queue.is_empty()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
