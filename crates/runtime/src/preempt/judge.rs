//! The receive path: what a notification does about the thread that it has interrupted, whatever
//! notification it is. The protocol is in this folder's README.

use super::blocked::{make_call_without_slot, wait_for_library};
use super::defer::{defer_to_region, defer_to_section, put_off};
use super::frame::Frame;
use super::place::{Place, interrupted_at};
use super::room::wait_in_room;
use super::{extension, fault};
use crate::arch::pkru;
use crate::thread::control::Uthread;
use crate::tsc;
use crate::worker::carrier::Carrier;
use crate::worker::scheduler;
use crate::worker::slot::{FLAGGED, Slot};
use core::sync::atomic::{Ordering::*, compiler_fence};
use quaver_sched::Why;

/// Closes the gate, before anything else: from here on nothing moves the thread, and `pending`
/// keeps the sender quiet. Returns what it was.
#[inline(always)]
pub(super) fn close_gate(t: &Uthread) -> u32 {
    let gate = t.no_preempt.get();
    t.no_preempt.set(gate + 1);
    compiler_fence(SeqCst);
    gate
}

/// The interrupted thread, its gate closed, and what the gate was. `closed`: what
/// [`entry`](crate::arch::entry) has found.
pub(super) fn interrupted(closed: Option<&'static Uthread>) -> Option<(&'static Uthread, u32)> {
    match closed {
        Some(t) => Some((t, t.no_preempt.get() - 1)),
        None => crate::thread::raw::current().map(|t| (t, close_gate(t))),
    }
}

/// Who asks for a preemption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Requester {
    /// A clock's thread, which has written in the slot what dispatch it means.
    Clock,
    /// A POSIX timer, which knows nothing of dispatches.
    Timer,
    /// A timer of the CPU, which knows as little, and comes again and again.
    Tick,
    /// [`inspect`](super::inspect): whatever runs, whatever the policy says.
    #[cfg(feature = "inspect")]
    Forced,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Dropped: nothing was running that could be preempted, or not for long enough.
    Stale,
    /// Put off: it is taken at the end of a section or region, or asked again soon.
    Deferred,
    /// The thread made its blocking system call without a slot, and has queued for one since.
    HandedOver,
    /// The thread was switched out, and has been resumed since.
    Preempted,
    /// Nothing else was there to run; asked again soon.
    Alone,
}

/// From the closed gate to the switch: what a notification does about the thread that it has
/// interrupted. Returns when that thread runs again, possibly on another carrier, still behind its
/// gate.
///
/// # Safety
///
/// Called on the user thread `t`, which a notification has interrupted at `frame`, with
/// [`close_gate`] called, which has returned `gate`.
#[inline]
pub(super) unsafe fn judge(
    source: Requester,
    t: &'static Uthread,
    gate: u32,
    frame: &mut impl Frame,
) -> Verdict {
    // SAFETY: attached, hence a carrier, and the gate is closed.
    let c = unsafe { Carrier::here() };
    if t.fault.is_set()
        // SAFETY: the caller's contract.
        && let Some(verdict) = unsafe { fault::wakes(c, t, gate, frame) }
    {
        return verdict;
    }
    match c.slot() {
        Some(slot) => {
            slot.stats.preempt_received.add_shared(1, true);
            // SAFETY: the caller's contract.
            let verdict = unsafe { receive(c, slot, t, gate, source, frame) };
            if matches!(verdict, Verdict::Preempted | Verdict::HandedOver) {
                count_migration(slot);
            }
            verdict
        }
        None => {
            c.rt().stats.preempt_stale.add_shared(1, true);
            Verdict::Stale
        }
    }
}

/// A thread that was preempted on `before` runs again, behind its gate.
#[inline]
fn count_migration(before: &Slot) {
    // SAFETY: the gate is closed.
    if let Some(now) = unsafe { Carrier::here() }.slot()
        && now.id != before.id
    {
        now.stats.preempt_migrated.add_shared(1, true);
    }
}

/// A notification found a carrier on its native stack: what it dispatches next starts with a clean
/// slate.
#[cold]
pub(super) fn in_scheduler() {
    // SAFETY: attached, hence a carrier; the native context never moves.
    let c = unsafe { Carrier::here() };
    c.rt().stats.preempt_stale.add_shared(1, true);
    if let Some(slot) = c.slot() {
        slot.request.over();
        slot.armed.store(tsc::NEVER, Relaxed);
    }
}

/// What to do about the interruption, and doing it. Opens the way for the next request (`pending`)
/// only when it has been decided that none is due at once.
///
/// # Safety
///
/// As for [`judge`].
unsafe fn receive(
    c: &Carrier,
    slot: &Slot,
    t: &'static Uthread,
    gate: u32,
    source: Requester,
    frame: &mut impl Frame,
) -> Verdict {
    let rt = c.rt();
    let now = tsc::now();
    // Before it is paid for, for it may be the one that can be.
    let affordable = slot.affordable_at();
    if source != Requester::Tick {
        slot.charge(now);
    }
    match source {
        // Who brings work does not set the timer again until the section has ended, lest handlers
        // pile up.
        Requester::Timer if gate > 0 => slot.armed.store(FLAGGED, Relaxed),
        Requester::Timer => slot.timer_is_off(),
        Requester::Tick => {}
        Requester::Clock => {
            // A timer that has expired, too, may have its frame beneath this one (the kernel
            // delivers all that is pending at once): its handler runs when this thread does so
            // again, so nobody must wait for it.
            if gate == 0 && slot.armed.load(Relaxed) <= now + rt.timer_slop {
                slot.armed.store(tsc::NEVER, Relaxed);
            }
        }
        #[cfg(feature = "inspect")]
        Requester::Forced => slot.forced.store(slot.run.load(Relaxed), Relaxed),
    }
    if gate > 0 {
        // A section of the runtime, or an outer handler. The section may hold a lock of the policy,
        // which therefore cannot be asked anything, not even whether a request that is stale has
        // left the clock something to do.
        defer_to_section(slot, t);
        return Verdict::Deferred;
    }
    if source == Requester::Clock && !slot.request.is_for(slot.run.load(Relaxed)) {
        slot.stats.preempt_stale.add_shared(1, true);
        slot.request.over();
        // The sender relied on it, and the dispatch that made it stale may not have seen the
        // sender's work.
        rt.clock.dispatched(slot);
        return Verdict::Stale;
    }
    let stopping = rt.stopping.load(Relaxed);
    if matches!(source, Requester::Timer | Requester::Tick) && !stopping {
        // A timer knows nothing of dispatches: ask again.
        match slot.due_from(affordable) {
            // Where there are probes, they have had their time.
            Some((_, due)) if slot.backed(due) <= now + rt.timer_slop => {
                if source == Requester::Tick {
                    // What finds nothing to do is not paid for.
                    slot.charge(now);
                }
            }
            later => {
                slot.stats.preempt_stale.add_shared(1, true);
                slot.looked_in_vain(now);
                if let Some((_, due)) = later {
                    rt.clock.arm_for_run(slot, due.max(slot.affordable_at()), now);
                }
                return Verdict::Stale;
            }
        }
    }
    // SAFETY: `frame` is where `t` was interrupted.
    let place = pkru::with_all_rights(|| unsafe { interrupted_at(rt, t, frame) });
    if source == Requester::Clock
        && slot.rescue.load(Relaxed) == slot.run.load(Relaxed)
        && !stopping
        && !matches!(place, Place::Syscall | Place::LockWait | Place::Interrupted)
        && slot.policy_due().is_none_or(|(_, due)| due > now + rt.timer_slop)
    {
        // It does not block (any more), and nobody else has asked.
        slot.stats.preempt_stale.add_shared(1, true);
        slot.request.over();
        return Verdict::Stale;
    }
    let late = slot.late_by(now);
    // Threads that share TLS are one thread to a library.
    let in_library = place == Place::Library
        && late.unwrap_or(0) >= rt.max_deferral
        && t.fs.get() != 0
        && rt.in_library.enter();
    if place == Place::LockWait {
        // SAFETY: as for this function; the thread is at that call.
        return unsafe { wait_for_library(c, slot, t, now, frame) };
    }
    if place == Place::Unsafe || place == Place::Library && !in_library {
        slot.stats.preempt_deferred.add_shared(1, true);
        slot.count_put_off(now);
        put_off(slot, now);
        return Verdict::Deferred;
    }
    // SAFETY: the gate is closed, and the thread is at a system call that it wants to make.
    if place == Place::Syscall && !stopping && unsafe { scheduler::hand_over(c) } {
        slot.count_useful(late);
        // SAFETY: as above; the registers are those of the call.
        unsafe { make_call_without_slot(rt, t, frame) };
        return Verdict::HandedOver;
    }
    // SAFETY: as above.
    if place == Place::Syscall && !stopping && unsafe { wait_in_room(c, slot, t, frame) } {
        slot.count_useful(late);
        return Verdict::Preempted;
    }
    if t.regions.get() > 0 && (!stopping || t.unstoppable.get() > 0) {
        if in_library {
            rt.in_library.leave();
        }
        defer_to_region(slot, t, now);
        return Verdict::Deferred;
    }
    if extension::prolong(slot, t, now) {
        if in_library {
            rt.in_library.leave();
        }
        return Verdict::Deferred;
    }
    let lacks_probes = slot.lacks_probes(t);
    // SAFETY: the calling thread, gate closed.
    let left = unsafe {
        if in_library {
            let left = scheduler::leave_if_work(t, Why::Preempted);
            rt.in_library.leave();
            left
        } else {
            scheduler::preempt(rt, t)
        }
    };
    if left {
        if lacks_probes {
            slot.saw_long(now);
        }
        slot.count_useful(late);
        Verdict::Preempted
    } else {
        put_off(slot, now);
        Verdict::Alone
    }
}
