//! Round robin.
//!
//! * One queue, shared by all workers; whoever is free takes the oldest task.
//! * A running task stops when its quantum is used and something waits. (Skyloft section 5.1 has
//!   the same with a queue for each core and no balancing; one queue needs none.)
//! * Preempted and yielding tasks go to the tail.
//!
//! It approximates processor sharing: no task waits long for the processor, but every long task
//! takes its turn before a new one; `two-queue` avoids that.

use crate::{
    Class, Concerns, Pick, Place, Policy, Running, Task, Time, Why,
    policies::stop_at,
    queue::{Links, List},
};

/// Policy `rr`: one shared queue and a quantum.
#[derive(Debug)]
pub struct RoundRobin {
    quantum: Option<Time>,
    links: Links,
    queue: List,
}

impl RoundRobin {
    /// For tasks `0..max_tasks` and any number of workers. `quantum` is in the host's unit; `None`:
    /// never preempt.
    ///
    /// # Panics
    ///
    /// As [`Links::new`].
    pub fn new(max_tasks: u32, quantum: Option<Time>) -> Self {
        RoundRobin { quantum, links: Links::new(max_tasks), queue: List::new() }
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "rr"
    }

    fn task_enqueue(&self, _place: Place, task: Task, _why: Why, _now: Time) {
        self.queue.push(&self.links, task);
    }

    fn task_dequeue(&self, _worker: usize, _now: Time) -> Option<Pick> {
        let task = self.queue.pop(&self.links)?;
        let class = Class::Fresh;
        Some(Pick { task, class })
    }

    fn central(&self) -> bool {
        true
    }

    fn arrival_concerns(&self) -> Concerns {
        Concerns::First
    }

    fn balance(&self, _worker: usize, _now: Time) -> Option<Pick> {
        None
    }

    fn grants_quantum(&self) -> bool {
        true
    }

    fn preempt_at(&self, _worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        stop_at(running, self.quantum?, !self.queue.is_empty(), timer)
    }

    fn has_work(&self, _worker: usize) -> bool {
        !self.queue.is_empty()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
