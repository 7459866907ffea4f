//! One thread for all workers, which sleeps until the next decision is due.

use super::duty::Duty;
use crate::preempt;
use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, NEVER, Ticks};
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};

/// Passes without anything waiting before the thread goes to sleep for good. Waking it costs a
/// worker a system call, so a little restlessness pays.
const LINGER: u32 = 8;
/// Passes in a quantum, at the most, for the sake of threads beside which nothing waits.
const RESTLESS: Ticks = 4;

/// See the module documentation of [`crate::clock`].
pub(crate) struct TimerThread {
    quantum: Ticks,
    /// Futex word: how the thread sleeps, or [`NUDGED`].
    sleep: AtomicU32,
    /// When a long sleep ends by itself; [`NEVER`] also while that is not known yet.
    until: AtomicU64,
}

/// Awake, or asleep until the next request is due.
const SHORT: u32 = 0;
/// In a long sleep, or about to begin one: makers of work must end it.
const LONG: u32 = 1;
/// Something is due earlier than the thread knows.
const NUDGED: u32 = 2;

impl TimerThread {
    pub(crate) fn new(quantum: Ticks) -> TimerThread {
        TimerThread { quantum, sleep: AtomicU32::new(SHORT), until: AtomicU64::new(NEVER) }
    }

    /// Is the thread in a long sleep that would go on when the slot's thread is due? Where due
    /// means that a preemption can be paid for at last, the sleep ends then, and waking the thread
    /// at each dispatch until then would cost more than it saves.
    #[inline(always)]
    fn oversleeps(&self, slot: &Slot) -> bool {
        self.sleep.load(Acquire) == LONG
            && slot.preempt_due().is_some_and(|(_, due)| self.would_miss(due))
    }

    fn would_miss(&self, due: Ticks) -> bool {
        due < self.until.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn dispatched(&self, slot: &Slot) {
        if self.oversleeps(slot) {
            self.wake();
        }
    }

    /// Something was made runnable for the worker of `slot`.
    #[inline]
    pub(crate) fn work_here(&self, slot: &Slot) {
        fence(SeqCst);
        if self.oversleeps(slot) {
            self.wake();
        }
    }

    /// Something was made runnable for any worker.
    #[inline]
    pub(crate) fn work_somewhere(&self, rt: &Inner) {
        fence(SeqCst);
        if self.sleep.load(Acquire) == LONG && rt.slots().iter().any(|slot| self.oversleeps(slot)) {
            self.wake();
        }
    }

    #[cold]
    pub(crate) fn wake(&self) {
        if self.sleep.compare_exchange(LONG, SHORT, AcqRel, Relaxed).is_ok() {
            sys::futex_wake(&self.sleep, 1);
        }
    }

    /// A request was put off for less than a quantum.
    #[cold]
    pub(crate) fn nudge(&self) {
        self.sleep.store(NUDGED, SeqCst);
        sys::futex_wake(&self.sleep, 1);
    }

    /// Sends what is due.
    fn pass(&self, rt: &Inner) -> Ahead {
        let mut ahead = Ahead { due: None, used_up: NEVER };
        for slot in rt.slots() {
            let Some((run, due)) = slot.preempt_due() else {
                let used_up = slot.run_since() + self.quantum;
                if used_up > tsc::now() {
                    ahead.used_up = ahead.used_up.min(used_up);
                }
                continue;
            };
            let now = tsc::now();
            let due = if due <= now + rt.timer_slop {
                preempt::send(rt, slot, run, now);
                // The thread's successor may use its quantum from now on.
                now + self.quantum
            } else {
                due
            };
            ahead.due = Some(ahead.due.map_or(due, |n: Ticks| n.min(due)));
        }
        ahead
    }

    /// Sleeps until `until`, or until somebody changes the word.
    fn sleep_until(&self, until: Ticks, how: u32) {
        let now = tsc::now();
        if until > now {
            let timeout = (until != NEVER).then(|| tsc::to_duration(until - now));
            let _ = sys::futex_wait(&self.sleep, how, timeout);
        }
    }
}

/// What a pass has found.
struct Ahead {
    /// When the next request will be due, as things are.
    due: Option<Ticks>,
    /// When the first of the threads beside which nothing waits will have had its quantum. Work
    /// that comes before that tells nobody while the clock's thread is in a short sleep, so it has
    /// to look then.
    used_up: Ticks,
}

impl Ahead {
    /// How long a short sleep may be. Many workers' threads are not looked at one by one: that
    /// would be a wake-up for each.
    fn look_at(&self, now: Ticks, quantum: Ticks) -> Ticks {
        let used_up = self.used_up.max(now + quantum / RESTLESS).min(now + quantum);
        self.due.map_or(used_up, |due| due.min(used_up))
    }
}

/// The thread.
pub(crate) fn run(rt: &'static Inner) {
    let crate::clock::Running::Thread(clock) = &rt.clock else { return };
    super::leave_workers_alone(rt);
    sys::set_minimal_timer_slack();
    sys::ask_for_short_slices();
    let mut duty = Duty::new(rt.config.clock_shares);
    let mut quiet = 0;
    while !rt.stopping.load(Relaxed) {
        clock.sleep.store(SHORT, SeqCst);
        fence(SeqCst);
        let now = tsc::now();
        let ahead = clock.pass(rt);
        quiet = if ahead.due.is_some() { 0 } else { quiet + 1 };
        let soon = now + clock.quantum;
        let is_soon = |due| due <= soon + rt.timer_slop;
        if ahead.due.map_or(quiet < LINGER, is_soon) {
            let earliest = tsc::now() + duty.gap();
            clock.sleep_until(ahead.look_at(now, clock.quantum).max(earliest), SHORT);
            continue;
        }
        // A long sleep: announce it, then look once more. Nobody relies on its end before that is
        // known.
        clock.until.store(NEVER, Relaxed);
        if clock.sleep.compare_exchange(SHORT, LONG, SeqCst, Relaxed).is_err() {
            continue;
        }
        fence(SeqCst);
        let next = clock.pass(rt).due;
        if !rt.stopping.load(Relaxed) && next.is_none_or(|n| n > soon) {
            let until = next.unwrap_or(NEVER);
            clock.until.store(until, Relaxed);
            clock.sleep_until(until, LONG);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sleep_is_ended_for_what_is_due_before_its_end_only() {
        let clock = TimerThread::new(100);
        assert!(clock.would_miss(1_000));
        clock.until.store(1_000, Relaxed);
        assert!(clock.would_miss(999) && !clock.would_miss(1_000));
    }

    #[test]
    fn a_short_sleep_ends_when_a_running_thread_has_had_its_quantum() {
        let at = |due, used_up| Ahead { due, used_up }.look_at(1_000, 100);
        assert_eq!(at(None, NEVER), 1_100);
        assert_eq!(at(None, 1_060), 1_060);
        assert_eq!(at(Some(1_040), 1_060), 1_040);
        assert_eq!(at(Some(1_080), 1_060), 1_060);
        // One of many workers' threads, whose quanta end one after the other.
        assert_eq!(at(None, 1_001), 1_025);
        assert_eq!(at(Some(1_010), 1_001), 1_010);
    }
}
