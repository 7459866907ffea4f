//! Locks whose holders are not preempted.

use quaver::NoPreempt;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock for short work. A holder that could be preempted would keep everybody else of the stack
/// waiting, and its own worker for ever.
#[derive(Default, Debug)]
pub(crate) struct Lock<T>(Mutex<T>);

/// The fields are dropped in this order: first the lock is released, then preemption is allowed.
pub(crate) struct Locked<'a, T> {
    guard: MutexGuard<'a, T>,
    _region: NoPreempt,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let region = NoPreempt::new();
        // A holder that has panicked is a bug of ours that was reported; others go on.
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { guard, _region: region }
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
