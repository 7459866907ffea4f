//! What the lock stands on, so that loom can stand in for it: a word on which processes sleep.

#[cfg(loom)]
pub(super) use model::Word;
#[cfg(not(loom))]
pub(super) use real::Word;

#[cfg(not(loom))]
mod real {
    use crate::futex;
    use std::ops::Deref;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    #[repr(transparent)]
    pub(in super::super) struct Word(AtomicU32);

    impl Word {
        #[cfg(test)]
        pub(in super::super) fn new() -> Word {
            Word(AtomicU32::new(0))
        }

        /// Sleeps while the word is `expected`, for this long at most; may return early.
        pub(in super::super) fn sleep(&self, expected: u32, nap: Duration) {
            let _ = futex::wait(&self.0, expected, Some(nap));
        }

        /// Wakes one sleeper.
        pub(in super::super) fn wake(&self) {
            futex::wake(&self.0);
        }
    }

    impl Deref for Word {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.0
        }
    }
}

#[cfg(loom)]
mod model {
    use loom::sync::atomic::AtomicU32;
    use loom::sync::{Condvar, Mutex};
    use std::ops::Deref;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    /// A futex as the kernel has it: comparing and falling asleep are one step for those who wake.
    /// The mutex is the kernel's bucket lock.
    pub(in super::super) struct Word {
        word: AtomicU32,
        bucket: Mutex<()>,
        sleeper: Condvar,
        naps_end: bool,
    }

    impl Word {
        /// Where naps do not end, a wake-up that is lost is seen: all threads are blocked.
        #[cfg(test)]
        pub(in super::super) fn new(naps_end: bool) -> Word {
            let (word, bucket, sleeper) = (AtomicU32::new(0), Mutex::new(()), Condvar::new());
            Word { word, bucket, sleeper, naps_end }
        }

        pub(in super::super) fn sleep(&self, expected: u32, _nap: Duration) {
            if self.naps_end {
                // In a model time passes when loom lets others run.
                return loom::thread::yield_now();
            }
            let bucket = self.bucket.lock().unwrap();
            if self.word.load(Relaxed) == expected {
                drop(self.sleeper.wait(bucket).unwrap());
            }
        }

        pub(in super::super) fn wake(&self) {
            drop(self.bucket.lock().unwrap());
            self.sleeper.notify_one();
        }
    }

    impl Deref for Word {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.word
        }
    }
}
