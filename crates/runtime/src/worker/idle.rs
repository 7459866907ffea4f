//! Which workers sleep, and whom to wake. The protocol is in this folder's README.

use crate::runtime::Inner;
use crate::sys;
use crate::tsc::{self, NEVER};
use crate::worker::slot::Slot;
use core::sync::atomic::{AtomicUsize, Ordering::*, fence};

/// Counters shared by all workers of a runtime.
pub(crate) struct Idle {
    sleepers: AtomicUsize,
    /// Workers that look for work, and those that have been woken to do so.
    spinning: AtomicUsize,
}

impl Idle {
    pub(crate) fn new() -> Idle {
        Idle { sleepers: AtomicUsize::new(0), spinning: AtomicUsize::new(0) }
    }

    /// Step b and c of the protocol: called after a task was made runnable. `true` if some worker that is not running a
    /// thread will look for it.
    #[inline]
    pub(crate) fn wake_one(&self, rt: &Inner) -> bool {
        fence(SeqCst);
        if self.spinning.load(Relaxed) != 0 {
            return true;
        }
        self.sleepers.load(Relaxed) != 0 && self.wake_sleeper(rt)
    }

    #[cold]
    fn wake_sleeper(&self, rt: &Inner) -> bool {
        for slot in rt.slots() {
            if slot.sleeping.load(Relaxed) == 1 && self.wake_this(slot) {
                return true;
            }
        }
        false
    }

    /// Wakes the carrier of one slot, whose timer has changed. `false` if it was not asleep.
    pub(crate) fn wake_this(&self, slot: &Slot) -> bool {
        fence(SeqCst);
        if slot.sleeping.compare_exchange(1, 0, AcqRel, Relaxed).is_err() {
            return false;
        }
        self.sleepers.fetch_sub(1, Relaxed);
        // On behalf of the woken worker: until it has looked, nobody else need be woken.
        self.spinning.fetch_add(1, SeqCst);
        sys::futex_wake(&slot.sleeping, 1);
        true
    }

    /// Wakes all, to stop.
    pub(crate) fn wake_all(&self, rt: &Inner) {
        while self.wake_sleeper(rt) {}
    }

    /// Looks for work, first spinning, then asleep. Returns when there may be some, a timer has expired or the runtime
    /// stops. The caller has just found nothing.
    pub(crate) fn wait(&self, rt: &Inner, slot: &Slot) {
        self.spinning.fetch_add(1, SeqCst);
        loop {
            if self.spin(rt, slot) {
                self.stop_spinning(rt, slot);
                return;
            }
            slot.sleeping.store(1, SeqCst);
            self.sleepers.fetch_add(1, SeqCst);
            self.spinning.fetch_sub(1, SeqCst);
            fence(SeqCst);
            if !self.ready(rt, slot) {
                slot.stats.sleeps.add(1);
                let timer = slot.next_timer.load(Relaxed);
                let timeout =
                    (timer != NEVER).then(|| tsc::to_duration(timer.saturating_sub(tsc::now())));
                let _ = sys::futex_wait(&slot.sleeping, 1, timeout);
            }
            if slot.sleeping.compare_exchange(1, 0, AcqRel, Acquire).is_ok() {
                // Not woken by a maker of work: a timer, a signal, or step 3.
                self.sleepers.fetch_sub(1, Relaxed);
                if self.ready(rt, slot) {
                    return;
                }
                self.spinning.fetch_add(1, SeqCst);
            } else if self.ready(rt, slot) {
                self.stop_spinning(rt, slot);
                return;
            }
        }
    }

    fn ready(&self, rt: &Inner, slot: &Slot) -> bool {
        slot.policy().has_work(slot.id)
            || slot.next_timer.load(Relaxed) <= tsc::now()
            || rt.stopping.load(Acquire)
    }

    fn spin(&self, rt: &Inner, slot: &Slot) -> bool {
        let until = tsc::now().saturating_add(rt.idle_spin);
        loop {
            if self.ready(rt, slot) {
                return true;
            }
            if tsc::now() >= until {
                return false;
            }
            core::hint::spin_loop();
        }
    }

    /// This worker has found work. If it was the last one that looked, others may be needed for what is left.
    fn stop_spinning(&self, rt: &Inner, slot: &Slot) {
        if self.spinning.fetch_sub(1, SeqCst) == 1 && rt.slots().len() > 1 {
            fence(SeqCst);
            // More than the one task that this worker is about to take? Its makers relied on this worker: they told
            // neither a sleeper nor the clock.
            if slot.policy().waiting() > 1 && !self.wake_one(rt) {
                rt.clock.work_somewhere(rt);
            }
        }
    }
}
