//! A runtime whose threads are in a common queue: [`Common`] is its policy.
//!
//! * A worker whose policy has picked another application's thread is *away*: it queues the thread
//!   that it ran, and rests. Resting, it wakes who has the core, and sleeps on its seat in the
//!   queue's memory, which stands for its bed's futex as in [`bells`](super::bells).
//! * Who brings work gives it to an idle core at once, under the queue's lock, and wakes that
//!   core's worker, of whichever application. So a worker has work when it was given some, and
//!   [`idle`](crate::idle)'s own wake-ups are for timers and the end.
//! * A worker that sleeps where files are heard could not be woken by others. A kernel thread
//!   listens instead, as long as the runtime runs ([`REACTOR`](crate::reactor)).

use crate::config::BuildError;
use crate::kernel_thread::{self, ThreadPurpose};
use crate::park::shim::Futex;
use core::sync::atomic::Ordering::Acquire;
use quaver_sched::share::Membership;
use quaver_sched::{Policy, Spec};
use quaver_share::common::Common;
use quaver_share::common_queue;
use std::time::Duration;

/// The part of one runtime.
#[derive(Debug)]
pub(crate) struct Queue(&'static Common);

impl Queue {
    pub(super) fn join(membership: &Membership) -> Result<Queue, BuildError> {
        let error = |reason| BuildError::Share { reason };
        let file = common_queue(membership).map_err(|e| error(e.to_string()))?;
        let common = Common::join(file).map_err(|e| error(e.to_string()))?;
        let common: &Common = Box::leak(Box::new(common));
        // Without it sleeps are limited.
        let _ = kernel_thread::start(ThreadPurpose::Watcher, common, watch);
        Ok(Queue(common))
    }

    pub(super) fn cpus(&self) -> Vec<usize> {
        self.0.cpus()
    }

    pub(super) fn policy(&self) -> (&'static dyn Policy, Spec, u32) {
        (self.0, self.0.spec().clone(), self.0.tasks())
    }

    pub(super) fn occupy(&mut self, cpus: &[usize]) -> Result<(), BuildError> {
        let shared = self.0.cpus();
        if shared == cpus {
            return Ok(());
        }
        let shared = crate::platform::format_cpu_list(&shared);
        let reason = format!("the common queue needs a worker on each of its CPUs ({shared})");
        Err(BuildError::Share { reason })
    }

    pub(super) fn rests(&self, worker: usize) {
        self.0.rests(worker);
    }

    pub(super) fn wait(&self, worker: usize, bed: &Futex, expected: u32, limit: Option<Duration>) {
        let asleep = || bed.word().load(Acquire) == expected;
        self.0.wait(worker, asleep, limit);
    }

    pub(super) fn wake(&self, worker: usize) {
        self.0.rouse(worker);
    }

    pub(super) fn is_away(&self, worker: usize) -> bool {
        self.0.is_away(worker)
    }

    pub(super) fn forked(&self) {
        self.0.forked();
    }

    pub(super) fn leave(&self) {
        self.0.leave();
    }
}

extern "C" fn watch(common: &'static Common) {
    kernel_thread::name(c"quaver-share");
    common.watch();
}

/// Not of a running runtime, which is never dropped.
impl Drop for Queue {
    fn drop(&mut self) {
        self.leave();
    }
}
