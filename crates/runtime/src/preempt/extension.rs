//! A short extension for who holds a mutex.
//!
//! A thread that is preempted while it holds a [`Mutex`](crate::sync::Mutex) is waited for by all
//! who want the mutex, for as long as others' quanta last. If it may go on until it has freed the
//! mutex, nobody waits: most critical sections take less than a preemption. So with
//! [`Builder::mutex_extension`](crate::Builder::mutex_extension) a request that finds the running
//! thread with a mutex is put off. (As the slice extension of FlexGuard 2.4 does for kernel
//! threads.)
//!
//! ```text
//!   request, mutexes > 0, not put off for the bound yet -> `extended`; asked again at the bound
//!   the last mutex is freed, `extended`                 -> preempted, if that is still due
//!   request at the bound                                -> preempted, whatever it holds
//!   the thread waits, yields or ends meanwhile          -> forgotten at its next dispatch
//! ```
//!
//! Invariants
//!
//! 1. `mutexes` and `extended` are the thread's own, and of the handler that has interrupted it. So
//!    they are plain cells, as the gate is.
//! 2. A thread raises `mutexes` after it has taken the mutex and lowers it after it has freed it. A
//!    request in between costs an extension or a preemption, and nothing else.
//! 3. The bound counts from the first time that the preemption was put off, for whatever reason,
//!    in one dispatch. So a holder that takes one mutex after the other gains no more than that.
//! 4. The switch is set before any user thread of a runtime runs, so each of them counts always or
//!    never. A guard that is forgotten leaves a count, and its thread gets the extension each time:
//!    it can lose some microseconds for others, no more.
//!
//! Mutexes of the C interface and of `std` are not counted: `std`'s, being futexes, are unknown
//! here, and the former have no guards.

use crate::runtime::Inner;
use crate::thread::control::{Uthread, deferred};
use crate::thread::raw::current;
use crate::tsc::Ticks;
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicBool, Ordering::*, compiler_fence};

/// Whether mutexes are counted.
static COUNTED: AtomicBool = AtomicBool::new(false);

/// A runtime with this setting begins, and no other one runs.
pub(crate) fn set(rt: &Inner) {
    COUNTED.store(rt.mutex_extension > 0, Relaxed);
}

/// The calling thread has taken a mutex.
#[inline(always)]
pub(crate) fn taken() {
    if COUNTED.load(Relaxed)
        && let Some(t) = current()
    {
        t.mutexes.set(t.mutexes.get() + 1);
        compiler_fence(SeqCst);
    }
}

/// The calling thread has freed a mutex. It is preempted here if that was put off for it.
#[inline(always)]
pub(crate) fn freed() {
    if COUNTED.load(Relaxed)
        && let Some(t) = current()
    {
        compiler_fence(SeqCst);
        let left = t.mutexes.get().saturating_sub(1);
        t.mutexes.set(left);
        compiler_fence(SeqCst);
        if left == 0 && t.extended.get() {
            over(t);
        }
    }
}

/// The calling thread is about to wait, and to free a mutex first: that gives way anyway.
#[inline]
pub(crate) fn given_up() {
    if COUNTED.load(Relaxed)
        && let Some(t) = current()
    {
        t.mutexes.set(t.mutexes.get().saturating_sub(1));
        compiler_fence(SeqCst);
    }
}

/// The last mutex of `t`, the calling thread, has been freed.
#[cold]
fn over(t: &'static Uthread) {
    t.extended.set(false);
    if t.no_preempt.get() == 0 && t.regions.get() == 0 {
        super::take_deferred(t);
    } else {
        // The end of the section or region takes it.
        t.deferred.set(deferred::ASKED);
    }
}

/// Puts the preemption of `t`, the calling thread, off if it holds a mutex and the bound has not
/// been reached. The caller has closed the gate.
pub(crate) fn prolong(slot: &Slot, t: &Uthread, now: Ticks) -> bool {
    if t.mutexes.get() == 0 {
        return false;
    }
    let rt = slot.rt();
    let left = rt.mutex_extension.saturating_sub(slot.late_by(now).unwrap_or(0));
    if left == 0 || rt.stopping.load(Relaxed) {
        return false;
    }
    t.extended.set(true);
    slot.stats.preempt_deferred.add_shared(1, true);
    slot.count_put_off(now);
    slot.retry_at.store(now + left, Relaxed);
    slot.request.over();
    rt.clock.arm(slot, now + left, now);
    true
}
