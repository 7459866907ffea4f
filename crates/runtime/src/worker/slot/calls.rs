//! When the running thread makes calls on files: it [gives way](crate::preempt::at_call) there, so
//! signals wait a little for the next one.

use super::Slot;
use crate::tsc::Ticks;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use quaver_sched::clock::Pace;

/// A signal waits for one part of this many of a quantum at most.
const PART: Ticks = 2;

/// A slot's. Written by its carrier only.
pub(crate) struct Calls {
    /// The last one.
    at: AtomicU64,
    /// For how long a signal waits after it.
    wait: AtomicU64,
    /// When a thread has got something by one without waiting, after its turn, last.
    got: AtomicU64,
}

impl Calls {
    pub(super) const fn new() -> Calls {
        Calls { at: AtomicU64::new(0), wait: AtomicU64::new(0), got: AtomicU64::new(0) }
    }
}

impl Slot {
    /// The running thread makes a call on a file.
    #[inline(always)]
    pub(crate) fn called(&self, now: Ticks) {
        let alone = now.saturating_sub(self.could_stop_at());
        if let Some(pace) = &self.rt.pace
            && pace.is_long(alone)
        {
            self.seems_long(alone, Pace::is_long, now);
        }
        self.time_is(now);
        self.calls.at.store(now, Relaxed);
        self.calls.wait.store(self.wait_after(alone), Relaxed);
    }

    /// The running thread has got something by such a call, without waiting, after its turn.
    pub(crate) fn has_got(&self, now: Ticks) {
        self.time_is(now);
        self.calls.got.store(now, Relaxed);
    }

    /// Has the running thread got something so since its dispatch?
    pub(crate) fn has_got_in_this_run(&self) -> bool {
        self.calls.got.load(Relaxed) > self.run_since()
    }

    /// For how long a signal waits for the next call if the last was made after a time like this:
    /// twice that, or as long as the signal would take.
    #[inline(always)]
    fn wait_after(&self, gap: Ticks) -> Ticks {
        let rt = self.rt;
        (2 * gap).max(rt.price.unwrap_or(0)).min(rt.quantum.unwrap_or(0) / PART)
    }

    /// When the running thread could have been stopped without a signal last: its dispatch or its
    /// last call.
    #[inline(always)]
    pub(super) fn could_stop_at(&self) -> Ticks {
        self.run_since().max(self.calls.at.load(Relaxed))
    }

    /// When what is `due` is told by a signal: the running thread may give way at a call before, if
    /// threads of this worker have made some lately.
    #[inline(always)]
    pub(super) fn told_after_calls(&self, due: Ticks) -> Ticks {
        due.saturating_add(self.call_is_near()).max(self.calls_again_by())
    }

    /// Until then nobody interrupts the running thread, which has made a call and may make another.
    #[inline(always)]
    pub(crate) fn calls_again_by(&self) -> Ticks {
        self.calls.at.load(Relaxed).saturating_add(self.calls.wait.load(Relaxed))
    }

    /// How much later than its end a quantum is best ended by a signal: threads of this worker have
    /// made calls lately, so the running one may give way at its own. Whoever looks at the end may
    /// look on its CPU.
    #[inline]
    pub(crate) fn call_is_near(&self) -> Ticks {
        let lately = 2 * self.rt.quantum.unwrap_or(0);
        let near = self.calls.at.load(Relaxed).saturating_add(lately) >= self.run_since();
        if near { self.calls.wait.load(Relaxed) } else { 0 }
    }
}
