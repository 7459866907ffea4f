//! How the clock's thread sleeps without missing what it must be awake for.
//!
//! ```text
//!  clock's thread                                  maker of work, or a worker that dispatches
//!  ------------------------------------------      ------------------------------------------
//!  1 word = LONG (until: not known yet)            a  queue the work, or write `run`
//!  2 full fence                                    b  full fence
//!  3 look at all workers: `run`, queues            c  word is LONG, and due before `until`:
//!  4 publish `until`; sleep while word == LONG        LONG -> SHORT, wake
//! ```
//!
//! Of the two fences one is first in the total order: either the thread sees the work in step 3, or
//! the maker sees the announcement in step c. What makes a worker's thread due has two halves, its
//! dispatch and something that waits, and step b comes after both, on whichever side the later one
//! is made.
//!
//! `until` may be read from another sleep than the word. That does no harm: who reads the word of
//! an earlier sleep has passed its fence before the thread's next one, so the thread has seen the
//! work in step 3 of the later sleep.
//!
//! A short sleep skips steps 1 to 3: it ends by itself before anybody minds, and no maker looks at
//! it.
//!
//! The protocol uses nothing but these words, so that loom can run it (`models`).

use crate::park::shim::{AtomicU64, Futex, fence};
use core::sync::atomic::Ordering::*;
use std::time::Duration;

/// No end of a sleep.
const NEVER: u64 = u64::MAX;

/// Awake, or in a short sleep.
const SHORT: u32 = 0;
/// In a long sleep, or about to begin one: makers of work must end it.
const LONG: u32 = 1;
/// Something is due earlier than the thread knows, or it must stop.
const NUDGED: u32 = 2;

/// The bed of a clock's thread, which it writes at each look.
#[repr(align(128))]
pub(crate) struct Sleep {
    word: Futex,
    /// When a long sleep ends by itself; [`NEVER`] also while that is not known yet.
    until: AtomicU64,
}

impl Sleep {
    pub(crate) fn new() -> Sleep {
        Sleep { word: Futex::new(SHORT), until: AtomicU64::new(NEVER) }
    }

    /// The thread begins to look: nudges that come from now on keep it from its next sleep.
    pub(crate) fn begin_to_look(&self) {
        // A swap and no store: it acquires what a nudge was for that it overwrites, so the look
        // sees that.
        self.word.word().swap(SHORT, AcqRel);
    }

    /// A short sleep, unless it has been nudged since it began to look.
    pub(crate) fn nap(&self, time: Duration) {
        self.word.wait(SHORT, Some(time));
    }

    /// Steps 1 and 2. `false`: it has been nudged, and must look again. Otherwise the thread looks
    /// once more, and then calls [`sleep`](Sleep::sleep).
    pub(crate) fn announce(&self) -> bool {
        // Nobody relies on its end before that is known.
        self.until.store(NEVER, Relaxed);
        let quiet = self.word.word().compare_exchange(SHORT, LONG, SeqCst, Relaxed).is_ok();
        fence(SeqCst);
        quiet
    }

    /// Step 4: until `until`, which is in `time`; `None`: until it is woken.
    pub(crate) fn sleep(&self, until: u64, time: Option<Duration>) {
        self.until.store(until, Relaxed);
        self.word.wait(LONG, time);
    }

    /// Step b, where no other full fence comes between what was made and [`wants`](Sleep::wants).
    #[inline(always)]
    pub(crate) fn publish() {
        fence(SeqCst);
    }

    /// Step c: wakes the thread from a long sleep that would go on when something is `due`.
    #[inline(always)]
    pub(crate) fn wants(&self, due: impl FnOnce() -> Option<u64>) {
        if self.word.word().load(Acquire) == LONG
            && due().is_some_and(|due| due < self.until.load(Relaxed))
        {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.word.word().compare_exchange(LONG, SHORT, AcqRel, Relaxed).is_ok() {
            self.word.wake();
        }
    }

    /// Makes the thread look as soon as it can, from whatever sleep.
    #[cold]
    pub(crate) fn nudge(&self) {
        self.word.word().swap(NUDGED, AcqRel);
        self.word.wake();
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_long_sleep_is_ended_for_what_is_due_before_its_end_only() {
        let sleep = Sleep::new();
        let is_long = || sleep.word.word().load(Relaxed) == LONG;
        assert!(sleep.announce());
        sleep.until.store(1_000, Relaxed);
        sleep.wants(|| None);
        sleep.wants(|| Some(1_000));
        assert!(is_long());
        sleep.wants(|| Some(999));
        assert!(!is_long());
    }

    #[test]
    fn a_nudge_ends_any_sleep() {
        let sleep = Sleep::new();
        sleep.begin_to_look();
        sleep.nudge();
        // Neither of them returns otherwise.
        sleep.nap(Duration::from_secs(3600));
        assert!(!sleep.announce());
        sleep.sleep(NEVER, None);
    }
}
