//! Sleeping.
//!
//! Timed waits of other kinds are where the waiting is: `Condvar::wait_timeout`,
//! `Receiver::recv_timeout`, `Semaphore::acquire_timeout`.

use crate::thread::raw;
use std::time::{Duration, Instant};

/// Sleeps for at least `duration`; other threads of the worker run meanwhile.
///
/// When it is over the thread counts as waiting work, so a busy thread is preempted for it: on a
/// worker with CPU-bound threads the sleeper runs again within about a quantum. On an ordinary
/// kernel thread this is `std::thread::sleep`.
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let start = std::time::Instant::now();
/// quaver::sleep(std::time::Duration::from_millis(2));
/// assert!(start.elapsed().as_millis() >= 2);
/// # });
/// ```
pub fn sleep(duration: Duration) {
    if raw::current().is_none() {
        std::thread::sleep(duration);
        return;
    }
    let until = crate::park::deadline_after(duration);
    let _waiting = crate::park::waits_for(c"time", core::ptr::null::<()>());
    while raw::park_current(until) {}
}

/// Sleeps until `deadline`; returns at once if it has passed. See [`sleep`].
pub fn sleep_until(deadline: Instant) {
    sleep(deadline.saturating_duration_since(Instant::now()));
}

/// A moment at which a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// The moment `span` from now.
    pub fn after(span: Duration) -> Deadline {
        let now = Instant::now();
        // Nobody waits for a century.
        Deadline(now.checked_add(span).unwrap_or(now + Duration::from_secs(100 * 365 * 86_400)))
    }

    /// How far away it is; zero if it is over.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn at(self) -> Instant {
        self.0
    }
}
