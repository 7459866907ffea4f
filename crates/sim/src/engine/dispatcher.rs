//! A core of its own: it dispatches, or keeps time and sends notifications. What it does follows
//! one after the other.

use std::collections::VecDeque;

use quaver_sched::{Attributes, Place, Task, Why};

use super::{DISPATCHER, Engine};
use crate::calendar::NEVER;

/// The core.
#[derive(Default)]
pub(super) struct Core {
    /// It is busy until then.
    free: u64,
    /// How long it has been busy in all.
    pub(super) busy: u64,
    /// Requests that it is taking in, and when each is done.
    ingested: VecDeque<(u64, u32)>,
    /// Workers to which it is handing a task, which is still queued.
    pub(super) pending: usize,
}

impl Core {
    /// It does something that takes so long; returns when it is done.
    pub(super) fn occupy(&mut self, now: u64, cost: u64) -> u64 {
        self.free = self.free.max(now) + cost;
        self.busy += cost;
        self.free
    }

    /// It takes this request in until `done`; returns when the first of all is done.
    pub(super) fn ingest(&mut self, done: u64, task: u32) -> u64 {
        self.ingested.push_back((done, task));
        self.ingested[0].0
    }

    /// How many requests it is taking in.
    pub(super) fn ingesting(&self) -> usize {
        self.ingested.len()
    }
}

impl Engine<'_> {
    /// The dispatcher has taken a request in.
    pub(super) fn take_in(&mut self) {
        let (_, task) = self.core.ingested.pop_front().expect("a request was ingested");
        let next = self.core.ingested.front().map_or(NEVER, |next| next.0);
        self.calendar.set(DISPATCHER, next);
        self.policy.task_init(Task(task), &Attributes::default(), self.now);
        self.make_runnable(Place::Shared, task, Why::New);
    }

    /// The dispatcher hands a task to an idle worker.
    pub(super) fn assign(&mut self, worker: usize) {
        self.remove_idle(worker);
        self.hand_over(worker);
    }

    pub(super) fn hand_over(&mut self, worker: usize) {
        let done = self.core.occupy(self.now, self.rules.system.assign);
        self.workers[worker].assigned = done + self.rules.system.handoff;
        self.core.pending += 1;
        self.schedule(worker);
    }
}
