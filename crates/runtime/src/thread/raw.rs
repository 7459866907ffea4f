//! What the rest of the crate needs to know of the calling user thread: who it is, park, unpark.

use crate::arch::segment::{self, GS_CURRENT};
use crate::block;
use crate::preempt;
use crate::runtime::Inner;
use crate::thread::control::{Uthread, park_state};
use crate::tsc;
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use core::cell::Cell;
use core::sync::atomic::Ordering::*;
use quaver_sched::{TimerRoom, Why};
use std::time::Instant;

thread_local! {
    /// Is `gs` a carrier? True in the TLS blocks of carriers and of all user threads.
    /// Const-initialised and without a destructor, so reading it is one load, also in the
    /// preemption handler.
    static ATTACHED: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current TLS block.
#[inline]
pub(crate) fn attach() {
    ATTACHED.set(true);
}

/// Unmarks the current TLS block, before the kernel thread stops being a carrier.
pub(crate) fn detach() {
    ATTACHED.set(false);
}

/// Where the mark is, for TLS blocks that are built or reset.
pub(crate) fn attached_mark() -> *const bool {
    ATTACHED.with(|a| a.as_ptr().cast_const())
}

/// Is `gs` a carrier here?
#[inline]
pub(crate) fn attached() -> bool {
    ATTACHED.get()
}

/// The calling user thread; `None` on a kernel thread and in the scheduler.
///
/// The reference stays right when the thread is preempted and moved: it names the thread, not the
/// place.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Uthread> {
    if !ATTACHED.get() {
        return None;
    }
    // SAFETY: attached, so `gs` is a carrier; its current thread is the caller, or null.
    unsafe { (segment::gs_read::<GS_CURRENT>() as *const Uthread).as_ref() }
}

/// The calling user thread's handle.
#[inline]
pub(crate) fn current_handle() -> Option<u32> {
    current().map(|t| t.handle)
}

/// Can the caller wait as a user thread? Not on kernel threads, and not in a critical section of
/// the runtime or a handler that has interrupted one.
#[inline]
pub(crate) fn may_park() -> bool {
    current().is_some_and(|t| t.no_preempt.get() == 0)
}

/// Lets another thread run if there is one. `false`: none has run, or this is no user thread.
#[inline]
pub fn try_yield() -> bool {
    current().is_some_and(super::try_yield)
}

/// As [`try_yield`], for a thread that is about to wait for others: they may be among those that
/// were not preempted. Who was would have to be stopped for it.
#[inline]
pub fn try_yield_before_wait() -> bool {
    current().is_some_and(super::try_yield_to_fresh)
}

/// Does the calling user thread run without a worker, in a call that blocks?
pub(crate) fn has_no_worker() -> bool {
    let Some(t) = current() else { return true };
    t.preempt_disable();
    // SAFETY: preemption is disabled until the reference has been used.
    let has_none = unsafe { Carrier::here() }.slot().is_none();
    t.preempt_enable();
    has_none
}

/// Tells debuggers what the calling user thread is about to wait for.
pub(crate) fn set_waits(what: *const core::ffi::c_char, at: usize) {
    if let Some(t) = current() {
        t.waits_for.set(what);
        t.waits_at.set(at);
    }
}

/// Waits for the calling user thread's token. `false`: `deadline` came first.
///
/// On a kernel thread: a bug of the caller.
pub(crate) fn park_current(deadline: Option<Instant>) -> bool {
    loop {
        if park_until(deadline.map(tsc::at)) {
            return true;
        }
        // Ticks are not exact: a little may be left.
        if deadline.is_none_or(|at| tsc::is_over(at, Instant::now())) {
            return false;
        }
    }
}

/// As [`park_current`], with the deadline in ticks, which may come a little early.
fn park_until(deadline: Option<tsc::Ticks>) -> bool {
    preempt::assert_enabled();
    let Some(t) = current() else { unreachable!("park_current outside a user thread") };
    t.preempt_disable();
    if t.park.load(Relaxed) == park_state::NOTIFIED {
        t.park.swap(park_state::EMPTY, Acquire);
        t.preempt_enable();
        return true;
    }
    // SAFETY: preemption is disabled; not used after the switch.
    let c = unsafe { Carrier::here() };
    let rt = c.rt();
    if let Some(at) = deadline {
        // Without a slot of its own the thread uses the first one's heap: whoever has that slot
        // will see the timer.
        let slot = c.slot().unwrap_or(&rt.slots()[0]);
        if let Err(timers) = slot.set_timer(t, at) {
            // Preemptible again while it allocates.
            t.preempt_enable();
            drop(slot.give_room(TimerRoom::new(timers)));
            return park_until(deadline);
        }
        if c.slot().is_none() && !rt.idle.wake_this(rt, slot.id) {
            rt.clock.work_on(slot);
        }
    }
    // SAFETY: the calling thread, preemption disabled.
    unsafe { scheduler::leave(t, After::Park(t)) };
    if deadline.is_some()
        && let Some(heap) = rt.timer_table.heap_of(t.task())
    {
        rt.slots()[heap as usize].cancel_timer(t);
    }
    t.preempt_enable();
    block::leave_again(t);
    deadline.is_none_or(|at| tsc::now() < at)
}

/// Puts the token of a user thread there and makes it runnable if it is parked. From any thread,
/// also while preemption is disabled.
pub(crate) fn unpark(handle: u32) {
    let Some(rt) = Inner::latest() else { return };
    let Some(t) = rt.table.get_checked(handle) else { return };
    let Some(me) = current() else {
        unpark_from(rt, None, t);
        return;
    };
    me.preempt_disable();
    // SAFETY: preemption is disabled until the slot has been used.
    let slot = unsafe { Carrier::here() }.slot();
    unpark_from(rt, slot, t);
    me.preempt_enable();
}

/// [`unpark`] by the carrier of `slot` (`None`: by anybody else), with preemption disabled.
pub(crate) fn unpark_from(rt: &Inner, slot: Option<&Slot>, t: &Uthread) {
    if give_token(t) {
        scheduler::make_runnable(rt, slot, t, Why::Woken, true);
    }
}

/// Puts the token there. `true`: the thread was parked, and the caller makes it runnable.
pub(crate) fn give_token(t: &Uthread) -> bool {
    let mut seen = park_state::PARKED;
    loop {
        let next = match seen {
            park_state::PARKED => park_state::EMPTY,
            // The write to NOTIFIED, even over NOTIFIED, orders what came before it before the park
            // that takes it.
            _ => park_state::NOTIFIED,
        };
        match t.park.compare_exchange(seen, next, AcqRel, Acquire) {
            Err(now) => seen = now,
            Ok(before) => return before == park_state::PARKED,
        }
    }
}
