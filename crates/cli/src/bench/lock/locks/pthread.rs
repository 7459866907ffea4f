//! The C library's mutex, of the default kind.

use std::cell::UnsafeCell;

use super::BenchLock;

/// A `pthread_mutex_t` that does not move while it is used.
pub struct Pthread(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: the C library's functions may be called by any thread.
unsafe impl Sync for Pthread {}

impl BenchLock for Pthread {
    type Node = ();

    fn create() -> Self {
        Self(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
    }

    fn lock(&self, (): &mut ()) {
        // SAFETY: an initialised mutex.
        let result = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        assert_eq!(result, 0);
    }

    unsafe fn unlock(&self, (): &mut ()) {
        // SAFETY: held by the calling thread, as the caller sees to.
        let result = unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        assert_eq!(result, 0);
    }
}
