//! A POSIX timer for each carrier, armed only while something waits.

use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, NEVER, Ticks};
use crate::worker::slot::{FLAGGED, Slot};
use core::sync::atomic::Ordering::*;
use quaver_sched::clock::Alarm;
use std::sync::OnceLock;
use std::time::Duration;

/// See the module documentation of [`crate::clock`].
pub(crate) struct PosixTimer {
    alarm: Alarm,
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
        PosixTimer {
            alarm: Alarm::new(quantum, cost_of_arming()),
            quantum,
            lost_after: tsc::from_duration(Duration::from_millis(1)),
        }
    }

    /// The timer of a new carrier; -1 if the kernel has none left (RLIMIT_SIGPENDING).
    pub(crate) fn for_carrier(tid: i32, signal: i32) -> i32 {
        sys::timer_create(tid, signal).unwrap_or(-1)
    }

    /// Will the timer fire in time for a thread that has a quantum to itself, whatever waits? By
    /// the slot's own carrier.
    #[inline(always)]
    pub(crate) fn is_in_time(&self, slot: &Slot) -> bool {
        let (armed, since) = (slot.armed.load(Relaxed), slot.run_since());
        // It fires within the quantum: nearly always so, where threads are short.
        armed.wrapping_sub(since) <= self.quantum || {
            let earliest = slot.looks_at(self.alarm.earliest(since, slot.affordable_at()));
            !Alarm::misses(armed, earliest, since, self.lost_after)
        }
    }

    /// Sees to it that the timer fires in time for the running thread, given what waits now.
    #[inline(always)]
    pub(crate) fn dispatched(&self, slot: &Slot) {
        if !self.is_in_time(slot) {
            slot.flag_is_seen();
            self.arm_if_waiting(slot, self.lost_after);
        }
    }

    /// Sees to it that the timer fires in time for what has just been made, by the slot's own
    /// carrier, and is `due` then.
    #[inline]
    pub(crate) fn due_here(&self, slot: &Slot, due: Ticks) {
        let armed = slot.armed.load(Relaxed);
        if Alarm::misses(armed, slot.looks_at(due), slot.run_since(), self.lost_after) {
            self.arm_for_run(slot, due, tsc::now());
        }
    }

    /// The same, from anywhere.
    pub(crate) fn look_at(&self, slot: &Slot) {
        self.arm_if_waiting(slot, slot.rt().lost_after);
    }

    /// `true` if the slot's timer has been set.
    fn arm_if_waiting(&self, slot: &Slot, lost_after: Ticks) -> bool {
        let Some((_, due)) = slot.preempt_due() else { return false };
        let (now, armed) = (tsc::now(), slot.armed.load(Relaxed));
        let needed = armed != FLAGGED && Alarm::misses(armed, slot.looks_at(due), now, lost_after);
        if needed {
            self.arm_for_run(slot, due, now);
        }
        needed
    }

    /// Sets the timer for the end of a quantum, of which setting it takes a part.
    pub(crate) fn arm_for_run(&self, slot: &Slot, due: Ticks, now: Ticks) {
        self.arm(slot, slot.looks_at(self.alarm.at(due, now)), now);
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

    /// Arms one worker for which something waits and whose timer is off or set too late. One for
    /// each call: a burst of work arms as many as it needs.
    #[cold]
    pub(crate) fn work_somewhere(&self, rt: &Inner) {
        rt.any_slot(|slot| self.arm_if_waiting(slot, rt.lost_after));
    }
}

/// What setting a timer takes on this machine; 0 if there can be none. Measured once in a process.
fn cost_of_arming() -> Ticks {
    static COST: OnceLock<Ticks> = OnceLock::new();
    *COST.get_or_init(measure_arming)
}

fn measure_arming() -> Ticks {
    const TRIES: usize = 16;
    // Never to expire.
    const LONG: Duration = Duration::from_secs(3600);
    let Ok(timer) = sys::timer_create(sys::gettid(), libc::SIGURG) else { return 0 };
    let once = |_| {
        let begin = tsc::now();
        let _ = sys::timer_settime_once(timer, LONG);
        tsc::now() - begin
    };
    // The least: nothing else happened meanwhile.
    let cost = (0..TRIES).map(once).min().unwrap_or(0);
    sys::timer_delete(timer);
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_a_timer_costs_something() {
        tsc::init();
        let cost = cost_of_arming();
        assert!(cost > 0 && cost < tsc::from_duration(Duration::from_secs(1)), "{cost}");
    }
}
