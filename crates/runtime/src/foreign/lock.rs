//! Mutual exclusion in one word.
//!
//! ```text
//!   FREE --lock--> TAKEN --unlock--> FREE
//!   TAKEN --somebody wants it--> AWAITED --unlock, which wakes one--> FREE
//! ```
//!
//! Who has waited takes the lock as AWAITED, because others may be waiting still: at worst one
//! wake-up is in vain.

use super::futex::{self, End, Limits};
use crate::park;
use crate::park::shim::{AtomicU32, spin_loop};
use core::sync::atomic::Ordering::*;

/// Nobody has the lock.
pub const FREE: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;

/// Takes the lock if it is free.
#[inline]
pub fn try_lock(word: &AtomicU32) -> bool {
    word.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok()
}

/// Takes the lock; waits until it can be had. [`End::Woken`]: the caller has it.
#[inline]
pub fn lock(word: &AtomicU32, limits: &Limits<'_>) -> End {
    if try_lock(word) { End::Woken } else { lock_contended(word, limits) }
}

#[cold]
fn lock_contended(word: &AtomicU32, limits: &Limits<'_>) -> End {
    // Only where the owner may be running on another CPU.
    for _ in 0..park::patience_here() {
        spin_loop();
        if word.load(Relaxed) == FREE && try_lock(word) {
            return End::Woken;
        }
    }
    while word.swap(AWAITED, Acquire) != FREE {
        match futex::wait(word, AWAITED, limits) {
            End::Woken => {}
            end => return end,
        }
    }
    End::Woken
}

/// Gives the lock back. The word is not touched any more once it is free.
#[inline]
pub fn unlock(word: &AtomicU32) {
    if word.swap(FREE, Release) == AWAITED {
        futex::wake(word, 1);
    }
}

/// Is the lock taken? Out of date at once.
#[inline]
pub fn is_locked(word: &AtomicU32) -> bool {
    word.load(Relaxed) != FREE
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::foreign::futex::Deadline;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    #[test]
    fn excludes_and_times_out() {
        let word = AtomicU32::new(FREE);
        assert!(try_lock(&word) && !try_lock(&word) && is_locked(&word));
        let soon = Deadline::after(Duration::from_millis(1));
        let limits = Limits { deadline: Some(soon), ..Limits::NONE };
        assert_eq!(lock(&word, &limits), End::TimedOut);
        let limits = Limits { interrupted: Some(&|| true), ..Limits::NONE };
        assert_eq!(lock(&word, &limits), End::Interrupted);
        unlock(&word);
        assert_eq!(lock(&word, &Limits::NONE), End::Woken);
    }

    #[test]
    fn kernel_threads_exclude_each_other() {
        let (word, sum) = (AtomicU32::new(FREE), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..2_000 {
                        lock(&word, &Limits::NONE);
                        sum.store(sum.load(Relaxed) + 1, Relaxed);
                        unlock(&word);
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 8_000);
    }
}
