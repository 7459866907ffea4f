//! Non-preemptible regions.

use crate::thread::control::{Uthread, deferred};
use crate::thread::raw::{attached, current};
use crate::tsc;
use crate::worker::carrier::Carrier;
use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// Runs `f` without being preempted.
///
/// A preemption that is asked for meanwhile happens when the outermost region ends. Regions nest. A
/// voluntary switch (`yield_now`, a contended lock, `sleep`) inside the region is allowed and does
/// switch; after it the region holds again. A call that blocks in the kernel gives the worker away
/// as usual. Keep regions to a few microseconds: everything else on this worker waits. On a thread
/// that is not a user thread this just calls `f`.
///
/// Costs two increments of the thread's own counter (about 1 ns). (Aspen, section 3.1.2.)
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let sum = quaver::no_preempt(|| (0..100u64).sum::<u64>());
/// assert_eq!(sum, 4950);
/// # });
/// ```
pub fn no_preempt<T>(f: impl FnOnce() -> T) -> T {
    let _guard = NoPreempt::new();
    f()
}

/// A non-preemptible region as a guard; see [`no_preempt`].
///
/// The guard belongs to the thread that made it and cannot be sent to another.
#[derive(Debug)]
#[must_use = "the region ends when the guard is dropped"]
pub struct NoPreempt {
    not_send: PhantomData<*const ()>,
}

impl NoPreempt {
    /// Enters a region.
    #[inline]
    pub fn new() -> NoPreempt {
        if let Some(t) = current() {
            t.enter_region();
        }
        NoPreempt { not_send: PhantomData }
    }
}

impl Default for NoPreempt {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for NoPreempt {
    #[inline]
    fn drop(&mut self) {
        if let Some(t) = current() {
            t.leave_region();
        }
    }
}

/// Runs `f`, which holds a lock of the whole process for a short time, in a region in which not
/// even a shutdown stops the thread.
pub(crate) fn unstoppable<T>(f: impl FnOnce() -> T) -> T {
    struct Depth;
    impl Drop for Depth {
        fn drop(&mut self) {
            if let Some(t) = current() {
                t.unstoppable.set(t.unstoppable.get() - 1);
            }
        }
    }
    let _region = NoPreempt::new();
    if let Some(t) = current() {
        t.unstoppable.set(t.unstoppable.get() + 1);
    }
    let _depth = Depth;
    f()
}

/// Could the calling thread be preempted right here? `false` inside a region and on threads that
/// are not user threads.
pub fn is_preemptible() -> bool {
    current().is_some_and(|t| t.no_preempt.get() == 0 && t.regions.get() == 0)
}

thread_local! {
    /// Depth of the critical sections of a kernel thread, for the signal handlers that interrupt
    /// it.
    static SECTIONS: Cell<u32> = const { Cell::new(0) };
}

/// Enters a critical section of the runtime. On a kernel thread or in the scheduler it only says
/// so.
#[inline]
pub(crate) fn disable() {
    match current() {
        Some(t) => t.preempt_disable(),
        None => {
            SECTIONS.set(SECTIONS.get() + 1);
            compiler_fence(SeqCst);
        }
    }
}

/// Leaves a section entered by [`disable`].
#[inline]
pub(crate) fn enable() {
    match current() {
        Some(t) => t.preempt_enable(),
        None => {
            compiler_fence(SeqCst);
            SECTIONS.set(SECTIONS.get().saturating_sub(1));
        }
    }
}

/// Has the caller, a signal handler, interrupted the runtime? Then it may hold any of its locks.
pub(crate) fn in_section() -> bool {
    match current() {
        Some(t) => t.no_preempt.get() != 0,
        // In the scheduler always.
        None => attached() || SECTIONS.get() != 0,
    }
}

/// What follows relies on staying on its carrier: the caller is in a critical section, behind the
/// gate of a handler, in the scheduler, or no user thread. Looked at in debug builds only.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_disabled() {
    debug_assert!(
        current().is_none_or(|t| t.no_preempt.get() > 0),
        "preemption is enabled where the caller relies on its carrier"
    );
}

/// What follows waits, allocates or runs code of the user: the caller is in no critical section,
/// nor in the scheduler. Looked at in debug builds only.
#[inline(always)]
#[track_caller]
pub(crate) fn assert_enabled() {
    debug_assert!(!in_section(), "preemption is disabled where the caller may wait");
}

/// Yields because a preemption was asked for inside the section or region that has just ended.
#[cold]
pub(crate) fn take_deferred(t: &'static Uthread) {
    // A loop and no recursion: each resumption may be flagged again behind the gate.
    loop {
        let in_region = t.sees_flag();
        t.preempt_disable();
        // SAFETY: `t` is the calling thread, preemption is disabled.
        unsafe {
            if in_region {
                give_to_region();
            } else {
                crate::worker::scheduler::preempted_at_region_end(t);
            }
        }
        t.preempt_enable_only();
        // A region's end takes what it keeps.
        if t.deferred.get() != deferred::ASKED {
            return;
        }
    }
}

/// A section has ended within a region of the user. The region may go on to wait in the kernel, of
/// which the clock must hear: requests go on, now and then.
///
/// # Safety
///
/// On a user thread with preemption disabled.
pub(super) unsafe fn give_to_region() {
    // SAFETY: preemption is disabled until the slot has been used.
    let Some(slot) = (unsafe { Carrier::here() }).slot() else { return };
    // A timer's request is over as soon as it has come.
    slot.flag_is_seen();
    if slot.request.is_under_way() || slot.rt().clock.own_timer_is_off(slot) {
        super::defer::repeat_in_region(slot, tsc::now());
    }
}
