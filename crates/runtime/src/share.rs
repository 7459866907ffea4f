//! A runtime that shares its cores with other applications, by a broker (`quaver share`; Skyloft
//! 3.3): as a latency-critical or best-effort one ([`bells`]), or with all its threads in a run
//! queue that applications of one owner have in common ([`queue`]).

mod bells;
mod queue;

use crate::config::BuildError;
use crate::park::shim::Futex;
use crate::worker::slot::Slot;
use bells::Bells;
use quaver_sched::share::Membership;
use quaver_sched::{Policy, Spec};
use queue::Queue;
use std::time::Duration;

/// What one runtime has a part in, until it stops.
#[derive(Debug)]
pub(crate) enum Share {
    Bells(Bells),
    Queue(Queue),
}

impl Share {
    /// Joins. Blocks for up to ten seconds if the broker hangs.
    pub(crate) fn join(membership: &Membership) -> Result<Share, BuildError> {
        if membership.common {
            return Queue::join(membership).map(Share::Queue);
        }
        Bells::join(membership).map(Share::Bells)
    }

    /// The CPUs that are shared.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        match self {
            Share::Bells(bells) => bells.cpus(),
            Share::Queue(queue) => queue.cpus(),
        }
    }

    /// What it takes to give a core up and have it back, where idle workers have to know.
    pub(crate) fn cycle(&self) -> Option<Duration> {
        match self {
            Share::Bells(bells) => Some(bells.cycle()),
            Share::Queue(_) => None,
        }
    }

    /// The policy that all have in common, and the threads for which it has room.
    pub(crate) fn policy(&self) -> Option<(&'static dyn Policy, Spec, u32)> {
        match self {
            Share::Bells(_) => None,
            Share::Queue(queue) => Some(queue.policy()),
        }
    }

    /// The workers will be on these CPUs, one on each.
    pub(crate) fn occupy(&mut self, cpus: &[usize]) -> Result<(), BuildError> {
        match self {
            Share::Bells(bells) => bells.occupy(cpus),
            Share::Queue(queue) => queue.occupy(cpus),
        }
    }

    /// The calling carrier gets the rank of its application, if that has one. It keeps the one that
    /// it has if the broker does not allow that any more.
    pub(crate) fn rank(&self) {
        if let Share::Bells(bells) = self {
            bells.rank();
        }
    }

    /// A thread runs on this worker from now on.
    pub(crate) fn dispatched(&self, slot: &Slot) {
        if let Share::Bells(bells) = self {
            bells.dispatched(slot);
        }
    }

    /// A probe was met. How many bells it has answered; `None`: it has nothing to answer.
    pub(crate) fn look(&self, worker: usize) -> Option<usize> {
        match self {
            Share::Bells(bells) => bells.look(worker),
            Share::Queue(_) => None,
        }
    }

    /// The worker has nothing to do.
    pub(crate) fn rests(&self, worker: usize) {
        match self {
            Share::Bells(bells) => bells.rests(worker),
            Share::Queue(queue) => queue.rests(worker),
        }
    }

    /// In place of the bed's futex: sleeps while `bed` is `expected`; may return early.
    pub(crate) fn wait(&self, worker: usize, bed: &Futex, expected: u32, limit: Option<Duration>) {
        match self {
            Share::Bells(bells) => bells.wait(worker, bed, expected, limit),
            Share::Queue(queue) => queue.wait(worker, bed, expected, limit),
        }
    }

    /// Wakes a worker whose bed says so already.
    pub(crate) fn wake(&self, worker: usize, bed: &Futex) {
        match self {
            Share::Bells(bells) => bells.wake(worker, bed),
            Share::Queue(queue) => queue.wake(worker),
        }
    }

    /// Has another application the core of this worker, by a decision of this one's? Then the
    /// worker runs nothing.
    #[inline]
    pub(crate) fn is_away(&self, worker: usize) -> bool {
        matches!(self, Share::Queue(queue) if queue.is_away(worker))
    }

    /// Are idle cores given work by whoever brings it, so that workers need not look for others?
    pub(crate) fn fills_cores(&self) -> bool {
        matches!(self, Share::Queue(_))
    }

    /// In the child of a fork.
    pub(crate) fn forked(&self) {
        if let Share::Queue(queue) = self {
            queue.forked();
        }
    }

    /// The runtime has stopped.
    pub(crate) fn leave(&self) {
        match self {
            Share::Bells(bells) => bells.leave(),
            Share::Queue(queue) => queue.leave(),
        }
    }
}
