//! Memory that other threads may look at while its owner holds the handle exclusively.

use std::ops::Deref;
use std::ptr::NonNull;

/// A `T` on the heap, at an address that stays the same until the drop.
///
/// A `Box` would promise the compiler that nobody else has a pointer; nodes of queues are there for
/// others' pointers.
pub struct Place<T>(NonNull<T>);

// SAFETY: as of a `Box<T>` whose content others may read.
unsafe impl<T: Send + Sync> Send for Place<T> {}

impl<T> Place<T> {
    /// Its address.
    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Default> Default for Place<T> {
    fn default() -> Self {
        Self(NonNull::from(Box::leak(Box::default())))
    }
}

impl<T> Deref for Place<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: allocated in `default`, freed in `drop` only.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by a `Box` in `default`; a lock's node is in no queue when its thread
        // drops it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
