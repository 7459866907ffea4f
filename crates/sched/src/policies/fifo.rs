//! First come, first served.
//!
//! * One queue, shared by all workers; whoever is free takes the oldest task (centralised FCFS).
//! * A task runs until it blocks, yields or ends: nothing is ever preempted.
//! * A yielding task goes to the tail.
//!
//! This is the baseline of the papers: best when service times are alike, bad as soon as a few are
//! long, because short tasks wait behind them (head-of-line blocking, Aspen section 3.1.4).

use crate::{
    Class, Concerns, Pick, Place, Policy, Running, Task, Time, Why,
    queue::{Links, List},
};

/// Policy `fifo`: one shared queue, run to completion.
#[derive(Debug)]
pub struct Fifo {
    links: Links,
    queue: List,
}

impl Fifo {
    /// For tasks `0..max_tasks` and any number of workers.
    ///
    /// # Panics
    ///
    /// As [`Links::new`].
    pub fn new(max_tasks: u32) -> Self {
        Fifo { links: Links::new(max_tasks), queue: List::new() }
    }
}

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
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

    fn preempt_at(&self, _worker: usize, _running: &Running, _timer: Option<Time>) -> Option<Time> {
        None
    }

    fn has_work(&self, _worker: usize) -> bool {
        !self.queue.is_empty()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}
