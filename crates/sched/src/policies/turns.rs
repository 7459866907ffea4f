//! Whose turn it is: a worker's own queue or the shared one.
//!
//! A worker takes from its own queue first: its tasks are warm there, and nobody else may come to
//! them soon. Two rules keep the shared queue from waiting for ever, and a preemption from being in
//! vain:
//!
//! * *Count.* At every 31st dispatch the shared queue comes first.
//! * *Giving way.* If the running task was preempted (or has yielded) and went to the tail of the
//!   worker's own queue, the shared queue comes first, unless the stopped task came from there and
//!   the own queue holds others. So the two queues take turns. Without this rule a task that was
//!   stopped because shared work waits would be the head of its own queue and run again at once, up
//!   to 31 times.

use crate::{
    Task,
    sync::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

/// A worker looks into the shared queue before its own at every so many dispatches, so that a
/// worker which keeps making work for itself cannot starve what others handed in. A prime, so that
/// it does not fall in step with the program.
pub const SHARED_EVERY: u32 = 31;

/// The turns of one worker. Used by that worker alone; atomic only because policies are shared.
#[derive(Debug)]
pub(super) struct Turns {
    /// Dispatches since the last that was the shared queue's by count.
    dispatches: AtomicU32,
    /// The shared queue comes first at the next dispatch, because a task gave way.
    shared_next: AtomicBool,
    /// The last task that was taken came from the shared queue.
    from_shared: AtomicBool,
}

impl Turns {
    pub(super) fn new() -> Self {
        Turns {
            dispatches: AtomicU32::new(0),
            shared_next: AtomicBool::new(false),
            from_shared: AtomicBool::new(false),
        }
    }

    /// The running task goes to the tail of the worker's own queue, which has been empty before or
    /// not.
    pub(super) fn give_way(&self, own_was_empty: bool) {
        let shared_next = own_was_empty || !self.from_shared.load(Relaxed);
        self.shared_next.store(shared_next, Relaxed);
    }

    /// Take a task from the queue whose turn it is, or from the other.
    #[inline]
    pub(super) fn take(
        &self,
        own: impl FnOnce() -> Option<Task>,
        shared: impl FnOnce() -> Option<Task>,
    ) -> Option<Task> {
        let count = self.dispatches.load(Relaxed) + 1;
        let by_count = count == SHARED_EVERY;
        self.dispatches.store(if by_count { 0 } else { count }, Relaxed);
        let gave_way = self.shared_next.load(Relaxed);
        self.shared_next.store(false, Relaxed);

        let shared = || shared().inspect(|_| self.from_shared.store(true, Relaxed));
        let own = || own().inspect(|_| self.from_shared.store(false, Relaxed));
        if by_count || gave_way { shared().or_else(own) } else { own().or_else(shared) }
    }
}
