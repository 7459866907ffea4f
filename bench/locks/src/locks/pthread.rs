//! The C library's mutex, of the default kind: the reference of ratios. (FlexGuard 2.2, "POSIX".)

use std::cell::UnsafeCell;
use std::time::Duration;

use super::{BenchLock, Timed};

/// A `pthread_mutex_t`. It does not move after its first use.
pub struct Pthread(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the C library's functions may be called by any thread.
unsafe impl Sync for Pthread {}
// SAFETY: a free mutex may move.
unsafe impl Send for Pthread {}

impl BenchLock for Pthread {
    type Node = ();

    fn create() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    fn lock(&self, (): &mut ()) -> u64 {
        // SAFETY: an initialised mutex.
        let result = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        assert_eq!(result, 0);
        0
    }

    unsafe fn unlock(&self, (): &mut ()) {
        // SAFETY: held by the calling thread, as the caller sees to.
        let result = unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        assert_eq!(result, 0);
    }
}

impl Timed for Pthread {
    fn lock_for(&self, (): &mut (), limit: Duration) -> bool {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `until` is ours.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut until) };
        let nanos = until.tv_nsec + i64::from(limit.subsec_nanos());
        until.tv_sec += limit.as_secs() as i64 + nanos / 1_000_000_000;
        until.tv_nsec = nanos % 1_000_000_000;
        // SAFETY: an initialised mutex, and a time.
        match unsafe { libc::pthread_mutex_timedlock(self.0.get(), &until) } {
            0 => true,
            libc::ETIMEDOUT => false,
            error => panic!("pthread_mutex_timedlock: error {error}"),
        }
    }
}
