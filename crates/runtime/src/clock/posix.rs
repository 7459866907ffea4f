//! A POSIX timer for each carrier, armed only while something waits.

use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, NEVER, Ticks};
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::*;
use std::time::Duration;

/// See the module documentation of [`crate::clock`].
pub(crate) struct PosixTimer {
    quantum: Ticks,
    /// How late a timer may be before its own carrier takes it for lost.
    lost_after: Ticks,
}

/// Can this process have POSIX timers (RLIMIT_SIGPENDING)?
///
/// # Errors
///
/// The kernel's.
pub(crate) fn try_posix_timer(signal: i32) -> std::io::Result<()> {
    let timer =
        sys::timer_create(sys::gettid(), signal).map_err(std::io::Error::from_raw_os_error)?;
    sys::timer_delete(timer);
    Ok(())
}

impl PosixTimer {
    pub(crate) fn new(quantum: Ticks) -> PosixTimer {
        PosixTimer { quantum, lost_after: tsc::from_duration(Duration::from_millis(1)) }
    }

    /// The timer of a new carrier; -1 if the kernel has none left (RLIMIT_SIGPENDING).
    pub(crate) fn for_carrier(tid: i32, signal: i32) -> i32 {
        sys::timer_create(tid, signal).unwrap_or(-1)
    }

    /// Sees to it that the timer fires in time for the running thread, given what waits now.
    #[inline(always)]
    pub(crate) fn dispatched(&self, slot: &Slot) {
        let (armed, since) = (slot.armed.load(Relaxed), slot.run_since());
        // Set for no later than this thread's quantum, and not overdue: leave it alone.
        if armed <= since + self.quantum && armed + self.lost_after > since {
            return;
        }
        self.arm_if_waiting(slot, self.lost_after);
    }

    /// `true` if the slot's timer has been set.
    fn arm_if_waiting(&self, slot: &Slot, lost_after: Ticks) -> bool {
        let Some((_, due)) = slot.preempt_due() else { return false };
        let (now, armed) = (tsc::now(), slot.armed.load(Relaxed));
        let needed = due < armed || armed.saturating_add(lost_after) < now;
        if needed {
            self.arm(slot, due, now);
        }
        needed
    }

    /// Sets the timer for `at`.
    pub(crate) fn arm(&self, slot: &Slot, at: Ticks, now: Ticks) {
        slot.armed.store(at, Relaxed);
        // A zero span would switch the timer off.
        let after = tsc::to_duration(at.saturating_sub(now)).max(Duration::from_nanos(100));
        slot.stats.preempt_sent.add_shared(1, true);
        loop {
            let timer = slot.timer.load(Acquire);
            if sys::timer_settime_once(timer, after).is_err() {
                slot.armed.store(NEVER, Relaxed);
                return;
            }
            // Another carrier may have taken the slot meanwhile: its timer is the one that counts.
            if slot.timer.load(Acquire) == timer {
                return;
            }
        }
    }

    /// Arms one worker whose timer is off and for which something waits. One for each call: a burst of work arms
    /// as many as it needs.
    #[cold]
    pub(crate) fn work_somewhere(&self, rt: &Inner) {
        let now = tsc::now();
        let off = |s: &&Slot| {
            let armed = s.armed.load(Relaxed);
            armed > now.saturating_add(self.quantum) || armed.saturating_add(rt.lost_after) < now
        };
        rt.slots().iter().filter(off).any(|slot| self.arm_if_waiting(slot, rt.lost_after));
    }
}
