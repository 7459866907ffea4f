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
    /// How late a timer may be before it is taken for lost.
    lost_after: Ticks,
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
        self.arm_if_waiting(slot);
    }

    fn arm_if_waiting(&self, slot: &Slot) {
        if let Some((_, due)) = slot.preempt_due() {
            let now = tsc::now();
            let armed = slot.armed.load(Relaxed);
            if due < armed || armed + self.lost_after < now {
                self.arm(slot, due, now);
            }
        }
    }

    /// Sets the timer for `at`.
    pub(crate) fn arm(&self, slot: &Slot, at: Ticks, now: Ticks) {
        slot.armed.store(at, Relaxed);
        // A zero span would switch the timer off.
        let after = tsc::to_duration(at.saturating_sub(now)).max(Duration::from_nanos(100));
        slot.stats.preempt_sent.add_shared(1, true);
        if sys::timer_settime_once(slot.timer.load(Relaxed), after).is_err() {
            slot.armed.store(NEVER, Relaxed);
        }
    }

    /// Arms the worker that has run its thread for longest among those whose timers are off: one for each call, so a
    /// burst arms as many as it needs.
    #[cold]
    pub(crate) fn work_somewhere(&self, rt: &Inner) {
        let now = tsc::now();
        let candidate = rt
            .slots()
            .iter()
            .filter(|s| {
                let armed = s.armed.load(Relaxed);
                s.run_since() != 0
                    && (armed > now.saturating_add(self.quantum)
                        || armed.saturating_add(self.lost_after) < now)
            })
            .min_by_key(|s| s.run_since());
        if let Some(slot) = candidate {
            self.arm_if_waiting(slot);
        }
    }
}
