//! Putting a request off: until a section or region ends, or by time.

use crate::thread::control::Uthread;
use crate::tsc;
use crate::worker::carrier::Carrier;
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::*;

/// A nested signal has found the gate closed and left a flag, which is nobody's but the outer
/// handler's to notice when the gate was open before it: its request is repeated, not lost.
///
/// # Safety
///
/// `t` is the calling thread, its gate closed.
pub(super) unsafe fn repeat_flagged(t: &Uthread) {
    t.deferred.set(false);
    // SAFETY: the gate is closed; possibly another carrier than the one that was interrupted.
    if let Some(slot) = unsafe { Carrier::here() }.slot() {
        let now = tsc::now();
        put_off(slot, now);
    }
}

/// Asks for the preemption again a little later: each time twice as long, lest a thread that spends
/// its time in the C library does nothing but handle signals, and when a library has had its time.
pub(super) fn put_off(slot: &Slot, now: tsc::Ticks) {
    let rt = slot.rt();
    let delay = slot.retry_delay.load(Relaxed);
    let left = slot.late_by(now).map(|late| rt.max_deferral.saturating_sub(late));
    let delay = left.filter(|&left| left > 0).map_or(delay, |left| delay.min(left));
    slot.retry_delay.store((2 * delay).min(rt.max_retry), Relaxed);
    slot.retry_at.store(now + delay, Relaxed);
    slot.request.over();
    rt.clock.arm(slot, now + delay, now);
}

/// Leaves a flag for the end of the section or the outer handler in which the thread is. Until then
/// nothing is sent: `pending` stays set, lest handlers pile up on a slow machine.
///
/// The section may be a switch that has recorded the next dispatch already, while the calling
/// thread `t` is still the one that leaves: the request is meant for the next thread, which comes
/// out of a section, too.
pub(super) fn defer_to_section(slot: &Slot, t: &Uthread) {
    let dispatched = slot.running().map(|(_, r)| slot.rt().table.get(r.task.0));
    dispatched.unwrap_or(t).deferred.set(true);
    slot.stats.preempt_deferred.add_shared(1, true);
}

/// Leaves a flag for the end of the user's region in which the thread is. A region may wait in the
/// kernel, so requests go on, now and then.
pub(super) fn defer_to_region(slot: &Slot, t: &Uthread, now: tsc::Ticks) {
    t.deferred.set(true);
    slot.stats.preempt_deferred.add_shared(1, true);
    slot.count_put_off(now);
    repeat_in_region(slot, now);
}

/// Lets the clock ask again, in a while: the thread is in a region of the user.
pub(super) fn repeat_in_region(slot: &Slot, now: tsc::Ticks) {
    let (rt, at) = (slot.rt(), now + slot.rt().region_retry);
    slot.retry_at.store(at, Relaxed);
    slot.request.over();
    // Nobody looks, where each worker has a timer of its own.
    rt.clock.arm_own_timer(slot, at, now);
}
