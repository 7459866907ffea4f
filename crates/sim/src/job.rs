//! What user threads are about: requests, best-effort work, and the threads of a message benchmark.

use std::ops::{Index, IndexMut};

/// What a task does, and what happens at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Serves one request and ends.
    Request,
    /// Runs for ever.
    BestEffort,
    /// Wakes the worker threads that wait for it.
    Message(u16),
    /// Works for each message of this message thread.
    Bench(u16),
}

/// A task.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) class: u32,
    /// The request came, or the thread was woken.
    pub(crate) arrived: u64,
    /// How long it must run.
    pub(crate) service: u64,
    /// How long it must still run, as the mechanism stretches it.
    pub(crate) left: u64,
    /// It has been on a worker since it arrived.
    pub(crate) started: bool,
    /// Counted in the statistics.
    pub(crate) counted: bool,
    /// It was preempted when it ran last.
    pub(crate) outlived: bool,
    /// Where it ran last.
    pub(crate) worker: u32,
    /// The worker to whose port it came.
    pub(crate) port: u32,
    /// The worker in whose queue it waits, or waited last.
    pub(crate) queue: Option<u32>,
}

impl Job {
    pub(crate) fn is_best_effort(&self) -> bool {
        self.kind == Kind::BestEffort
    }
}

/// All tasks; numbers of those that are gone are used again.
#[derive(Default)]
pub(crate) struct Jobs {
    all: Vec<Job>,
    free: Vec<u32>,
}

impl Jobs {
    /// Adds a task; returns its number.
    pub(crate) fn add(&mut self, job: Job) -> u32 {
        match self.free.pop() {
            Some(task) => {
                self[task] = job;
                task
            }
            None => {
                self.all.push(job);
                self.all.len() as u32 - 1
            }
        }
    }

    /// The task is over.
    pub(crate) fn remove(&mut self, task: u32) {
        self.free.push(task);
    }

    /// How many numbers have been used.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many there are now.
    pub(crate) fn live(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

impl Index<u32> for Jobs {
    type Output = Job;

    fn index(&self, task: u32) -> &Job {
        &self.all[task as usize]
    }
}

impl IndexMut<u32> for Jobs {
    fn index_mut(&mut self, task: u32) -> &mut Job {
        &mut self.all[task as usize]
    }
}
