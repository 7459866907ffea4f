//! Non-preemptible regions with a begin and an end, as [`crate::no_preempt`].

use crate::arch::entry;
use crate::preempt::ranges::{Code, code_at};
use crate::thread::raw::current;
use crate::tsc::NEVER;
use crate::worker::carrier::Carrier;
use core::sync::atomic::Ordering::Relaxed;

/// Begins a region of the calling user thread; nothing on other threads.
#[inline]
pub fn begin() {
    if let Some(t) = current() {
        t.enter_region();
    }
}

/// Ends the innermost region. `false`: there is none.
#[inline]
pub fn end() -> bool {
    match current() {
        Some(t) if t.regions.get() > 0 => {
            t.leave_region();
            true
        }
        Some(_) => false,
        None => true,
    }
}

/// Does the instruction at `address`, where a signal handler has interrupted a thread, belong to
/// something that must be ended: the beginning of the runtime's own handler, its resuming of a
/// thread, the dynamic loader? Who leaves the handler by a jump, or by unwinding, may do so only
/// where this is false, and [`in_runtime`] too. Async-signal-safe.
pub fn must_end(address: usize) -> bool {
    entry::contains(address) || code_at(address) == Code::Unsafe
}

/// The calling thread is about to leave signal handlers by a jump, or by unwinding. If one of the
/// runtime's was among them, the request that it was called for is lost: the clock is told to make
/// it again.
pub fn leave_handlers() {
    let Some(t) = current() else { return };
    t.preempt_disable();
    // SAFETY: preemption is disabled until the slot has been looked at.
    if let Some(slot) = unsafe { Carrier::here() }.slot() {
        slot.armed.store(NEVER, Relaxed);
        slot.request.over();
        slot.rt().clock.dispatched(slot);
    }
    t.preempt_enable();
}

/// Is the runtime inside a section of its own on the calling kernel thread, where none of it may be
/// called? True where a signal handler has interrupted the scheduler or a lock's list.
pub fn in_runtime() -> bool {
    match current() {
        Some(t) => t.no_preempt.get() > 0,
        None => crate::thread::raw::attached(),
    }
}
