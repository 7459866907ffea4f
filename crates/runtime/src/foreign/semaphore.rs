//! Counting semaphores in two words, changed as one: a poster touches the words once, and may find
//! them gone afterwards.

use super::futex::{self, End, Limits};
use crate::park::shim::{AtomicU32, AtomicU64, const_unless_loom};
use core::sync::atomic::Ordering::*;

/// The low word is the value, the high one the number of waiters.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Semaphore(AtomicU64);

const WAITER: u64 = 1 << 32;
/// The largest value (`SEM_VALUE_MAX`).
pub const MAX: u32 = i32::MAX as u32;

impl Semaphore {
    const_unless_loom! {
        /// A semaphore with a value of at most [`MAX`].
        pub fn new(value: u32) -> Semaphore {
            Semaphore(AtomicU64::new(value as u64))
        }
    }

    /// The low half of a little-endian word.
    fn word(&self) -> *const AtomicU32 {
        (&raw const self.0).cast()
    }

    /// Sleeps if the value is 0.
    #[cfg(not(loom))]
    fn sleep(&self, limits: &Limits<'_>) -> End {
        // SAFETY: a part of this semaphore, which is only read through this reference.
        futex::wait(unsafe { &*self.word() }, 0, limits)
    }

    #[cfg(shuttle)]
    fn sleep(&self, _limits: &Limits<'_>) -> End {
        // A simulated word has no halves.
        futex::wait_if(self.word().addr(), || self.value() == 0)
    }

    /// Takes one if there is one.
    pub fn try_take(&self) -> bool {
        self.0.fetch_update(Acquire, Relaxed, |s| (s as u32 != 0).then(|| s - 1)).is_ok()
    }

    /// Takes one; waits until there is one. [`End::Woken`]: taken.
    pub fn take(&self, limits: &Limits<'_>) -> End {
        if self.try_take() {
            return End::Woken;
        }
        self.0.fetch_add(WAITER, SeqCst);
        let end = loop {
            if self.try_take() {
                break End::Woken;
            }
            match self.sleep(limits) {
                End::Woken => {}
                end => break end,
            }
        };
        self.0.fetch_sub(WAITER, Relaxed);
        end
    }

    /// Adds one. `false`: the value is [`MAX`] already.
    pub fn post(&self) -> bool {
        let word = self.word();
        let grown = |s: u64| ((s as u32) < MAX).then(|| s + 1);
        match self.0.fetch_update(SeqCst, Relaxed, grown) {
            Ok(seen) if seen >= WAITER => {
                futex::wake(word, 1);
                true
            }
            seen => seen.is_ok(),
        }
    }

    /// The value. Out of date at once.
    pub fn value(&self) -> u32 {
        self.0.load(Relaxed) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::foreign::futex::Deadline;
    use std::time::Duration;

    #[test]
    fn counts() {
        let s = Semaphore::new(1);
        assert!(s.try_take() && !s.try_take());
        assert!(s.post() && s.value() == 1);
        assert_eq!(s.take(&Limits::NONE), End::Woken);
        let deadline = Some(Deadline::after(Duration::from_millis(1)));
        assert_eq!(s.take(&Limits { deadline, ..Limits::NONE }), End::TimedOut);
        assert!(!Semaphore::new(MAX).post());
    }

    #[test]
    fn posts_wake() {
        let s = Semaphore::default();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    (0..1000).for_each(|_| assert_eq!(s.take(&Limits::NONE), End::Woken))
                });
            }
            (0..3000).for_each(|_| assert!(s.post()));
        });
        assert_eq!(s.value(), 0);
    }
}
