//! How long a worker that has nothing to do looks for work before it sleeps.
//!
//! To sleep and be woken costs some microseconds, most of them of other threads' time. To look for
//! about as long costs twice the better of both at the most, whenever work comes; but where it
//! mostly comes later, all of that is lost. So the time is doubled when looking that long at the
//! most would have found something, and halved when not. With work that comes at random that
//! settles at always or never, whichever is right for its rate.

use crate::tsc::Ticks;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// It is never shorter than this part: work that comes soon must be noticed.
const LEAST: Ticks = 16;

/// A worker's. Used by the slot's carrier only.
pub(crate) struct WorkerPatience {
    most: Ticks,
    span: AtomicU64,
    /// When it began to look, 0: it does not.
    since: AtomicU64,
}

impl WorkerPatience {
    /// That looks for `most` at the most.
    pub(crate) fn new(most: Ticks) -> WorkerPatience {
        WorkerPatience { most, span: AtomicU64::new(most), since: AtomicU64::new(0) }
    }

    /// The worker begins to look at `now`, or goes on after a sleep; until when.
    pub(crate) fn until(&self, now: Ticks) -> Ticks {
        if self.since.load(Relaxed) == 0 {
            self.since.store(now, Relaxed);
        }
        now.saturating_add(self.span.load(Relaxed))
    }

    /// It has found something.
    pub(crate) fn found(&self, now: Ticks) {
        let took = now.saturating_sub(self.since.swap(0, Relaxed));
        let span = self.span.load(Relaxed);
        let span = if took <= self.most { span.saturating_mul(2) } else { span / 2 };
        self.span.store(span.clamp(self.most / LEAST, self.most), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how long it would look after work has come after each of these times.
    fn after(times: impl IntoIterator<Item = Ticks>) -> Ticks {
        let patience = WorkerPatience::new(1600);
        for took in times {
            let _ = patience.until(10_000);
            // A sleep between changes nothing.
            let _ = patience.until(10_000 + took / 2);
            patience.found(10_000 + took);
        }
        patience.until(20_000) - 20_000
    }

    #[test]
    fn who_looks_in_vain_looks_for_less() {
        assert_eq!(after([]), 1600);
        assert_eq!(after([1601]), 800);
        assert_eq!(after([5000; 3]), 200);
        assert_eq!(after([5000; 100]), 100);
    }

    #[test]
    fn looking_is_learnt_anew_when_work_comes_soon() {
        let soon = |n| (0..100).map(|_| 5000).chain((0..n).map(|_| 1600));
        assert_eq!(after(soon(1)), 200);
        assert_eq!(after(soon(4)), 1600);
        assert_eq!(after(soon(100)), 1600);
    }

    #[test]
    fn no_time_is_no_time() {
        let patience = WorkerPatience::new(0);
        for took in [0, 1, 5000] {
            assert_eq!(patience.until(7), 7);
            patience.found(7 + took);
        }
    }
}
