//! Something that is done once, in one word, whose values are those of the C library: 0 at the
//! start, 2 when done.

use super::futex::{self, Limits};
use core::sync::atomic::{AtomicU32, Ordering::*};

const NEW: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;
const AWAITED: u32 = 3;

/// Calls `f` if nobody has done so, and waits for whoever is doing so. If `f` unwinds, it counts as
/// not done.
#[inline]
pub fn call(word: &AtomicU32, f: impl FnOnce()) {
    call_or_wait(word, f, |word, value| {
        futex::wait(word, value, &Limits::NONE);
    });
}

/// The same for who waits by `wait` while the word has a value.
#[inline]
pub fn call_or_wait(word: &AtomicU32, f: impl FnOnce(), wait: impl Fn(&AtomicU32, u32)) {
    if word.load(Acquire) != DONE {
        call_slow(word, f, wait);
    }
}

#[cold]
fn call_slow(word: &AtomicU32, f: impl FnOnce(), wait: impl Fn(&AtomicU32, u32)) {
    loop {
        match word.compare_exchange(NEW, RUNNING, Acquire, Acquire) {
            Ok(_) => {
                let mut outcome = Outcome(word, NEW);
                f();
                outcome.1 = DONE;
                return;
            }
            Err(DONE) => return,
            Err(RUNNING) => {
                let _ = word.compare_exchange(RUNNING, AWAITED, Relaxed, Relaxed);
            }
            Err(_) => wait(word, AWAITED),
        }
    }
}

/// Publishes how it ended, also when it unwinds.
struct Outcome<'a>(&'a AtomicU32, u32);

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        if self.0.swap(self.1, Release) == AWAITED {
            futex::wake(self.0, u32::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn once_and_again_after_a_panic() {
        let (word, mut calls) = (AtomicU32::new(0), 0);
        assert!(catch_unwind(AssertUnwindSafe(|| call(&word, || panic!("first")))).is_err());
        for _ in 0..3 {
            call(&word, || calls += 1);
        }
        assert_eq!((calls, word.into_inner()), (1, DONE));
    }
}
