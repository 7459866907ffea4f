//! One thread for all workers, which sleeps until the next decision is due.

use crate::preempt;
use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, NEVER, Ticks};
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicU32, Ordering::*, fence};

/// Passes without anything waiting before the thread goes to sleep for good. Waking it costs a worker a system call, so
/// a little restlessness pays.
const LINGER: u32 = 8;

/// See the module documentation of [`crate::clock`].
pub(crate) struct TimerThread {
    quantum: Ticks,
    /// Futex word: how the thread sleeps, or [`NUDGED`].
    sleep: AtomicU32,
}

/// Awake, or asleep until the next request is due.
const SHORT: u32 = 0;
/// In a long sleep, or about to begin one: makers of work must end it.
const LONG: u32 = 1;
/// Something is due earlier than the thread knows.
const NUDGED: u32 = 2;

impl TimerThread {
    pub(crate) fn new(quantum: Ticks) -> TimerThread {
        TimerThread { quantum, sleep: AtomicU32::new(SHORT) }
    }

    #[inline(always)]
    pub(crate) fn dispatched(&self, slot: &Slot) {
        if self.sleep.load(Relaxed) == LONG && slot.preempt_due().is_some() {
            self.wake();
        }
    }

    /// Something was made runnable.
    #[inline]
    pub(crate) fn work(&self) {
        fence(SeqCst);
        if self.sleep.load(Relaxed) == LONG {
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

    /// Sends what is due; when the next request will be.
    fn pass(&self, rt: &Inner) -> Option<Ticks> {
        let mut next = None;
        for slot in rt.slots() {
            let Some((run, due)) = slot.preempt_due() else { continue };
            let now = tsc::now();
            let due = if due <= now + rt.timer_slop {
                preempt::send(rt, slot, run, now);
                // The thread's successor may use its quantum from now on.
                now + self.quantum
            } else {
                due
            };
            next = Some(next.map_or(due, |n: Ticks| n.min(due)));
        }
        next
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

/// The thread.
pub(crate) fn run(rt: &'static Inner) {
    let crate::clock::Running::Thread(clock) = &rt.clock else { return };
    super::leave_workers_alone(rt);
    sys::set_minimal_timer_slack();
    sys::ask_for_short_slices();
    let mut quiet = 0;
    while !rt.stopping.load(Relaxed) {
        clock.sleep.store(SHORT, SeqCst);
        fence(SeqCst);
        let now = tsc::now();
        let mut next = clock.pass(rt);
        quiet = if next.is_some() { 0 } else { quiet + 1 };
        let soon = now + clock.quantum;
        if next.is_some_and(|n| n <= soon + rt.timer_slop) || quiet < LINGER && next.is_none() {
            clock.sleep_until(next.unwrap_or(soon), SHORT);
            continue;
        }
        // A long sleep: announce it, then look once more.
        if clock.sleep.compare_exchange(SHORT, LONG, SeqCst, Relaxed).is_err() {
            continue;
        }
        fence(SeqCst);
        next = clock.pass(rt);
        if !rt.stopping.load(Relaxed) && next.is_none_or(|n| n > soon) {
            clock.sleep_until(next.unwrap_or(NEVER), LONG);
        }
    }
}
