//! The locks of a stack. Who waits for one parks.
//!
//! A holder can be preempted. Forbidding that would be quicker for those who wait, and wrong:
//! connections are allocated under these locks, the allocator has locks of its own, and whoever was
//! preempted while it had one of those would not run again before the only worker has it.

use quaver::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

/// A lock for short work.
#[derive(Default, Debug)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // A holder that has panicked is a bug of ours that was reported; others go on.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
