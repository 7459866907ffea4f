//! Condition variables, read-write locks, semaphores, barriers, spin locks and onces.
//!
//! Each uses the C library's memory: an object that a static initialiser has made is zero where it
//! matters, and the word in which the C library notes that an object is process-shared stays where
//! it is. Process-shared objects are the C library's; their waits block a kernel thread outside the
//! workers.

mod barrier;
pub(crate) mod cond;
mod once;
mod rwlock;
mod semaphore;
mod spin;

use core::sync::atomic::AtomicU32;

/// A word of an object.
///
/// # Safety
///
/// It lies within the object.
unsafe fn word<'a, T>(object: *const T, offset: usize) -> &'a AtomicU32 {
    // SAFETY: the caller's contract.
    unsafe { &*object.cast::<u8>().add(offset).cast::<AtomicU32>() }
}
