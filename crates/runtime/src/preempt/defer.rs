//! Putting a request off: until a section or region ends, or by time.

use super::gate::give_to_region;
use crate::thread::control::{Uthread, deferred};
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
    super::assert_disabled();
    let in_region = t.sees_flag();
    // SAFETY: the gate is closed; possibly another carrier than the one that was interrupted.
    unsafe {
        if in_region {
            give_to_region();
        } else if let Some(slot) = Carrier::here().slot() {
            put_off(slot, tsc::now());
        }
    }
}

/// Asks for the preemption again a little later: each time twice as long, lest a thread that spends
/// its time in the C library does nothing but handle signals, and when a library has had its time.
pub(super) fn put_off(slot: &Slot, now: tsc::Ticks) {
    let rt = slot.rt();
    // At a call it gives way by itself.
    let call = slot.calls_again_by().saturating_sub(now);
    let delay = slot.retry_delay.load(Relaxed).max(call);
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
    dispatched.unwrap_or(t).deferred.set(deferred::ASKED);
    slot.stats.preempt_deferred.add_shared(1, true);
}

/// Leaves a flag for the end of the user's region in which the thread is. A region may wait in the
/// kernel, so requests go on, now and then.
pub(super) fn defer_to_region(slot: &Slot, t: &Uthread, now: tsc::Ticks) {
    t.deferred.set(deferred::KEPT);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::preempt::frame::Frame;
    use crate::preempt::judge::close_gate;
    use crate::preempt::signal::SignalFrame;
    use crate::thread::control::deferred;
    use crate::thread::raw;
    use crate::{Builder, Clock, sys};
    use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    /// What is awaited, and what ends the wait if it does not come.
    const DONE: u32 = 1;
    const LOST: u32 = 2;

    static WORD: AtomicU32 = AtomicU32::new(0);

    /// Which way the handler is left.
    static BY_SIGRETURN: AtomicBool = AtomicBool::new(false);

    /// Where the notification's handler is about to leave, having judged: another one comes.
    unsafe extern "C" fn about_to_leave(
        _: i32,
        _: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        let Some(t) = raw::current() else { return };
        let gate = close_gate(t);
        // SAFETY: the worker's timer sets the flag, on this stack; the frame is this handler's, and
        // its gate is closed.
        unsafe {
            while t.deferred.as_ptr().read_volatile() != deferred::ASKED && WORD.load(SeqCst) == 0 {
                core::hint::spin_loop();
            }
            let mut frame = SignalFrame::new(context.cast());
            if BY_SIGRETURN.load(SeqCst) {
                frame.leave_by_sigreturn(t, gate)
            } else {
                frame.leave(t, gate)
            }
        }
    }

    /// A request meets a handler that has judged and not left yet, in a region that goes on to wait
    /// in the kernel for a thread that is queued behind it: it is asked again.
    #[test]
    fn a_region_is_asked_again_after_a_nested_request() {
        // SAFETY: a complete sigaction, installed as the notification's is.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = about_to_leave as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, core::ptr::null_mut()), 0);
        }
        for round in 0..20 {
            BY_SIGRETURN.store(round % 2 == 0, SeqCst);
            let one = Builder::new().workers(1).clock(Clock::PosixTimer);
            WORD.store(0, SeqCst);
            let set = |value| {
                let first = WORD.compare_exchange(0, value, SeqCst, SeqCst);
                sys::futex_wake(&WORD, 1);
                first.unwrap_or_else(|first| first)
            };
            std::thread::scope(|kernel| {
                kernel.spawn(|| {
                    let patience = Instant::now() + Duration::from_secs(10);
                    while WORD.load(SeqCst) == 0 && Instant::now() < patience {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    assert_ne!(set(LOST), 0, "round {round}: the request is lost");
                });
                crate::__private::test(one, || {
                    crate::scope(|s| {
                        crate::no_preempt(|| {
                            // In the region, or it may be done before the handler waits for it.
                            s.spawn(|| set(DONE));
                            // SAFETY: installed above.
                            unsafe { libc::raise(libc::SIGUSR2) };
                            while WORD.load(SeqCst) == 0 {
                                let _ = sys::futex_wait(&WORD, 0, None);
                            }
                        });
                    });
                });
            });
        }
    }
}
