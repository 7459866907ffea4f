//! What user threads are about: requests, best-effort work, and the threads of a message benchmark.

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
    /// How long it must still run, with the mechanism's tax.
    pub(crate) left: u64,
    /// It has been on a worker since it arrived.
    pub(crate) started: bool,
    /// Counted in the statistics.
    pub(crate) counted: bool,
    /// Where it ran last.
    pub(crate) worker: u32,
    /// The worker to whose port it came.
    pub(crate) port: u32,
}

impl Job {
    pub(crate) fn is_best_effort(&self) -> bool {
        self.kind == Kind::BestEffort
    }
}
