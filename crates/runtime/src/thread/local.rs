//! The calling thread.

use super::control::Uthread;
use super::raw;
use crate::worker::scheduler;
use core::fmt;
use quaver_sched::Why;

/// A user thread's number: unique in the process, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub(super) u64);

impl ThreadId {
    /// The number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadId({})", self.0)
    }
}

/// A description of a user thread.
#[derive(Clone, Debug)]
pub struct Thread {
    id: ThreadId,
    name: Option<Box<str>>,
}

impl Thread {
    /// Its number.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// Its name, if it was given one.
    pub fn name(&self) -> Option<String> {
        self.name.as_deref().map(String::from)
    }
}

/// The calling user thread; `None` on an ordinary kernel thread.
pub fn current() -> Option<Thread> {
    raw::current().map(|t| Thread {
        id: ThreadId(t.id.get()),
        // SAFETY: a thread's name does not change while it runs.
        name: unsafe { (*t.name.get()).clone() },
    })
}

/// Lets other threads of this worker run. Returns at once if there are none. On an ordinary kernel thread this is
/// `std::thread::yield_now`.
#[inline]
pub fn yield_now() {
    let Some(t) = raw::current() else {
        std::thread::yield_now();
        return;
    };
    try_yield(t);
}

/// Lets another thread run if there is one. `t` is the calling thread.
#[inline]
pub(crate) fn try_yield(t: &'static Uthread) -> bool {
    t.preempt_disable();
    // SAFETY: the calling thread, preemption disabled.
    let left = unsafe { scheduler::leave_if_work(t, Why::Yielded) };
    t.preempt_enable();
    left
}
