//! How many threads wait for files, and how many of those have been told and have yet to run.
//!
//! One word has both, since each wait changes it twice: threads in the lower half, and in the upper
//! one places in lists of waiters (a thread that waits for several files has several) which an
//! event has emptied.

use core::sync::atomic::{AtomicU64, Ordering::*};

const TOLD: u64 = 1 << 32;

/// The counts. All workers write them all the time.
#[repr(align(128))]
pub(super) struct Waits(AtomicU64);

impl Waits {
    pub(super) const fn new() -> Waits {
        Waits(AtomicU64::new(0))
    }

    /// Does a thread wait?
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.0.load(Relaxed) as u32 != 0
    }

    /// Is there a thread that has been told and has not run since?
    #[inline]
    pub(super) fn have_been_told(&self) -> bool {
        // Who runs at once may be counted before those who are told.
        (self.0.load(Relaxed) >> 32) as i32 > 0
    }

    /// As many were taken out of lists, and may have run since.
    pub(super) fn tell(&self, places: u64) {
        if places != 0 {
            self.0.fetch_add(places * TOLD, Relaxed);
        }
    }

    /// Nobody waits.
    pub(super) fn forget_all(&self) {
        self.0.store(0, SeqCst);
    }
}

/// A thread that waits.
pub(super) struct CountedWait<'a> {
    waits: &'a Waits,
    told: u64,
}

impl CountedWait<'_> {
    pub(super) fn begin(waits: &Waits) -> CountedWait<'_> {
        waits.0.fetch_add(1, SeqCst);
        CountedWait { waits, told: 0 }
    }

    /// It was in one list more from which somebody else has taken it.
    pub(super) fn was_told(&mut self) {
        self.told += 1;
    }
}

impl Drop for CountedWait<'_> {
    fn drop(&mut self) {
        self.waits.0.fetch_sub(self.told * TOLD + 1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_counted() {
        let waits = Waits::new();
        let is = |any, told| assert_eq!((waits.are_any(), waits.have_been_told()), (any, told));
        is(false, false);
        let mut wait = CountedWait::begin(&waits);
        is(true, false);
        waits.tell(2);
        is(true, true);
        wait.was_told();
        wait.was_told();
        drop(wait);
        is(false, false);
        // It runs before it is counted.
        let mut wait = CountedWait::begin(&waits);
        wait.was_told();
        drop(wait);
        is(false, false);
        let wait = CountedWait::begin(&waits);
        is(true, false);
        waits.tell(1);
        is(true, false);
        drop(wait);
        is(false, false);
    }
}
