//! The calling thread, and handles to others.

use super::control::Uthread;
use super::raw;
use crate::block;
use crate::preempt;
use crate::runtime::Inner;
use crate::worker::{carrier::Carrier, scheduler};
use core::fmt;
use core::sync::atomic::Ordering::*;
use quaver_sched::Why;
use std::time::{Duration, Instant};

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

/// A handle to a user thread, which may outlive it.
#[derive(Clone)]
pub struct Thread {
    pub(super) rt: &'static Inner,
    pub(super) handle: u32,
    pub(super) id: ThreadId,
    pub(super) name: Option<Box<str>>,
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id).field("name", &self.name).finish()
    }
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

    /// Ends the thread's [`park`], or its next one. Does nothing when the thread has ended. Never
    /// blocks.
    pub fn unpark(&self) {
        let Some(t) = self.rt.table.get_checked(self.handle) else { return };
        let mut seen = self.id.0 << 1;
        let there = seen | 1;
        // The write is made even if the permit is there: who takes it sees what came before this
        // call.
        while let Err(now) = t.permit.compare_exchange(seen, there, AcqRel, Relaxed) {
            if now >> 1 != self.id.0 {
                return;
            }
            seen = now;
        }
        raw::unpark(self.handle);
    }
}

/// The calling user thread; `None` on an ordinary kernel thread.
pub fn current() -> Option<Thread> {
    let t = raw::current()?;
    t.preempt_disable();
    // SAFETY: preemption is disabled.
    let rt = unsafe { Carrier::here() }.rt();
    t.preempt_enable();
    Some(Thread {
        rt,
        handle: t.handle,
        id: ThreadId(t.id.get()),
        // SAFETY: a thread's name does not change while it runs.
        name: unsafe { (*t.name.get()).clone() },
    })
}

/// Waits until another thread calls [`Thread::unpark`] for this one, as [`std::thread::park`]: an
/// `unpark` that came before is enough, and several count as one. Other threads of the worker run
/// meanwhile.
///
/// Locks and channels do not use up an `unpark`. On an ordinary kernel thread this is
/// `std::thread::park`.
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let parked = quaver::spawn(quaver::thread::park);
/// parked.thread().unpark();
/// parked.join().unwrap();
/// # });
/// ```
pub fn park() {
    match raw::current() {
        Some(t) => take_permit(t, None),
        None => std::thread::park(),
    }
}

/// As [`park`], for at most `timeout`.
pub fn park_timeout(timeout: Duration) {
    match raw::current() {
        Some(t) => take_permit(t, crate::park::deadline_after(timeout)),
        None => std::thread::park_timeout(timeout),
    }
}

/// Waits for the permit of the calling thread and takes it, or until `deadline`.
fn take_permit(t: &Uthread, deadline: Option<Instant>) {
    let none = t.id.get() << 1;
    let take = || t.permit.compare_exchange(none | 1, none, Acquire, Relaxed).is_ok();
    let _waiting = crate::park::waits_for(c"unpark", core::ptr::null::<()>());
    while !take() {
        if !raw::park_current(deadline) {
            take();
            return;
        }
    }
}

/// Lets other threads of this worker run. Returns at once if there are none. On an ordinary kernel
/// thread this is `std::thread::yield_now`.
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
    let left = only_yield(t);
    block::leave_again(t);
    left
}

/// As [`try_yield`], unless whoever waits for the thread's worker is known to have been preempted.
pub(crate) fn try_yield_to_fresh(t: &'static Uthread) -> bool {
    let left = yield_if(t, || {
        // SAFETY: preemption is disabled until the reference has been used.
        let slot = unsafe { Carrier::here() }.slot();
        slot.is_none_or(|slot| slot.policy().fresh_waits(slot.id) != Some(false))
    });
    block::leave_again(t);
    left
}

/// As [`try_yield`], and the thread may be left on a worker that it wants to give away.
pub(crate) fn only_yield(t: &'static Uthread) -> bool {
    yield_if(t, || true)
}

/// `may` is asked with preemption disabled.
#[inline(always)]
fn yield_if(t: &'static Uthread, may: impl FnOnce() -> bool) -> bool {
    preempt::assert_enabled();
    t.preempt_disable();
    // SAFETY: the calling thread, preemption disabled.
    let left = may() && unsafe { scheduler::leave_if_work(t, Why::Yielded) };
    t.preempt_enable();
    left
}
