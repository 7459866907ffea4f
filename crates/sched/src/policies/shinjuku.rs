//! Shinjuku's centralised preemptive scheduling.
//!
//! * One queue for all workers; whoever is free gets the oldest task.
//! * A running task is stopped when it has used its quantum and something waits, and goes to the
//!   tail of the queue (Skyloft section 5.2; Shinjuku stops it in any case, which costs more and
//!   orders nothing differently).
//! * *Who does it.* The policy says of itself that it is [`central`](Policy::central): a host with
//!   a dispatcher, such as the simulator, lets that core take every request in, hand every task out
//!   and stop those that have used their quantum, each at its own cost. The runtime has no
//!   dispatcher: its workers take from the same queue in the same order, and the timer core stops
//!   them.
//!
//! The rule is that of `rr`; it bears the name because it is what the papers compare with, and
//! because with a dispatcher its costs are others. Tasks run in the order of their last arrival, so
//! new ones wait for every preempted one before them: the head-of-line blocking that `two-queue`
//! avoids (Aspen section 3.1.4).

use crate::{Concerns, Pick, Place, Policy, Running, Task, Time, Why, policies::RoundRobin};

/// Policy `shinjuku`: a central queue and a quantum.
#[derive(Debug)]
pub struct Shinjuku(RoundRobin);

impl Shinjuku {
    /// For tasks `0..max_tasks` and any number of workers. `quantum` is in the host's unit; `None`:
    /// never preempt.
    ///
    /// # Panics
    ///
    /// As [`Links::new`](crate::queue::Links::new).
    pub fn new(max_tasks: u32, quantum: Option<Time>) -> Self {
        Shinjuku(RoundRobin::new(max_tasks, quantum))
    }
}

impl Policy for Shinjuku {
    fn name(&self) -> &'static str {
        "shinjuku"
    }

    fn task_enqueue(&self, place: Place, task: Task, why: Why, now: Time) {
        self.0.task_enqueue(place, task, why, now);
    }

    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        self.0.task_dequeue(worker, now)
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

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        self.0.preempt_at(worker, running, timer)
    }

    fn has_work(&self, worker: usize) -> bool {
        self.0.has_work(worker)
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }
}
