//! How long each thread has run, where somebody wants to know.

use crate::tsc::{self, Ticks};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

static IS_COUNTED: AtomicBool = AtomicBool::new(false);

/// The runtimes that are built from now on count how long each thread has run, beside those whose
/// policies keep accounts: for
/// [`UserThread::run_time`](crate::foreign::thread::UserThread::run_time). It costs some
/// nanoseconds a switch.
pub fn count() {
    IS_COUNTED.store(true, Relaxed);
}

pub(crate) fn is_counted() -> bool {
    IS_COUNTED.load(Relaxed)
}

/// Of one thread.
#[derive(Debug, Default)]
pub(crate) struct RunTime {
    /// In one word, so that others see no run twice or not at all. Written by the carrier that has
    /// the thread.
    word: AtomicU64,
    /// The most that was said: a run may have ended a little before the word says so.
    said: AtomicU64,
}

/// The thread runs: the rest of the word is when it would have begun if it had run ever since.
const RUNS: u64 = 1 << 63;

impl RunTime {
    /// Nothing, of a new thread.
    pub(crate) fn reset(&self) {
        self.word.store(0, Relaxed);
        self.said.store(0, Relaxed);
    }

    /// A run begins.
    #[inline]
    pub(crate) fn begin(&self, now: Ticks) {
        let ran = self.word.load(Relaxed);
        self.word.store(now.wrapping_sub(ran) | RUNS, Release);
    }

    /// It ends.
    #[inline]
    pub(crate) fn end(&self, now: Ticks) {
        self.word.store(at(self.word.load(Relaxed), now), Release);
    }

    /// The sum of all runs until now; never less than before.
    pub(crate) fn get(&self) -> Ticks {
        loop {
            let (word, now) = (self.word.load(Acquire), tsc::now());
            // Else it may have waited for a part of that time.
            if self.word.load(Acquire) == word {
                let ran = at(word, now);
                return self.said.fetch_max(ran, Relaxed).max(ran);
            }
        }
    }
}

fn at(word: u64, now: Ticks) -> Ticks {
    if word & RUNS == 0 {
        return word;
    }
    let ran = now.wrapping_sub(word) & !RUNS;
    // A CPU's counter may be a little behind that of the one where the run began.
    if ran > RUNS >> 1 { 0 } else { ran }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up() {
        let time = RunTime::default();
        for (begin, end, sum) in [(1000, 1500, 500), (1600, 1600, 500), (1700, 9000, 7800)] {
            time.begin(begin);
            assert_eq!(at(time.word.load(Relaxed), end), sum, "it runs");
            time.end(end);
            assert_eq!(at(time.word.load(Relaxed), end + 10_000), sum, "it waits");
        }
        time.begin(9100);
        assert_eq!(at(time.word.load(Relaxed), 9000), 7700, "seen from a CPU that is behind");
        time.reset();
        // It has run for longer than the counter shows, by what it was behind.
        time.word.store(100, Relaxed);
        time.begin(50);
        assert_eq!(at(time.word.load(Relaxed), 60), 110);
        time.reset();
        time.begin(50);
        assert_eq!(at(time.word.load(Relaxed), 40), 0, "not less than nothing");
    }

    /// Whoever looks while runs begin and end sees it grow.
    #[test]
    fn it_never_goes_back() {
        let (time, stop) = (RunTime::default(), AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                // As long as the shortest threads run, and wait.
                let passes = || (0..50).for_each(|_| core::hint::spin_loop());
                while !stop.load(Relaxed) {
                    let now = tsc::now();
                    time.begin(now);
                    passes();
                    time.end(tsc::now().max(now));
                    passes();
                }
            });
            let mut last = 0;
            let grows = (0..300_000).all(|_| {
                let before = std::mem::replace(&mut last, time.get());
                last >= before
            });
            stop.store(true, Relaxed);
            assert!(grows && last > 0);
        });
    }
}
