//! Who wants to know how long each thread has run.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
