//! The lock itself, without what it protects.

use crate::algorithm::{self, AWAITED, FREE};
use crate::asm;
use crate::futex::{self, Deadline};
use crate::machine::Waiter;
use crate::slice;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A lock of 8 bytes. Zeros are a free lock. (FlexGuard, Listing 2.)
///
/// It is not recursive: who takes it twice waits for ever. For threads of one process. It is no
/// cancellation point, and does not change `errno`.
#[derive(Default)]
#[repr(C)]
pub struct Lock {
    /// [`FREE`], held, or [`AWAITED`].
    pub(crate) word: AtomicU32,
    /// The handle of the last one in the queue, or 0.
    pub(crate) tail: AtomicU32,
}

impl Lock {
    /// A free lock.
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(0), tail: AtomicU32::new(0) }
    }

    /// Takes the lock; waits for it spinning, or blocked in the kernel.
    #[inline]
    pub fn lock(&self) {
        if !self.try_lock() {
            self.wait(None);
        }
    }

    /// Takes the lock if it is free; never waits.
    #[inline]
    pub fn try_lock(&self) -> bool {
        if slice::used() {
            return self.try_with_slice();
        }
        // SAFETY: any lock will do.
        unsafe { asm::try_word(&self.word) == FREE }
    }

    /// As [`try_lock`](Self::try_lock), in a slice that the kernel may extend.
    #[cold]
    fn try_with_slice(&self) -> bool {
        slice::begin(0);
        // SAFETY: any lock will do.
        let taken = unsafe { asm::try_word(&self.word) == FREE };
        if !taken {
            slice::end();
        }
        taken
    }

    /// Takes the lock, or returns false when `timeout` has passed. Takes a free lock even if
    /// `timeout` is zero.
    pub fn try_lock_for(&self, timeout: Duration) -> bool {
        if self.try_lock() {
            return true;
        }
        self.wait(Deadline::after(timeout))
    }

    #[cold]
    fn wait(&self, deadline: Option<Deadline>) -> bool {
        let taken = algorithm::wait(&mut Waiter::new(&self.word, &self.tail, deadline));
        if taken && slice::used() {
            slice::begin(1);
        }
        taken
    }

    /// Frees the lock; a system call only if somebody sleeps.
    ///
    /// # Safety
    /// The calling thread holds the lock.
    #[inline]
    pub unsafe fn unlock(&self) {
        let word = self.word.as_ptr();
        // SAFETY: held by the calling thread, as the caller sees to.
        if unsafe { asm::release(&self.word) } == AWAITED {
            // Whoever holds it now may free its memory; only the address is needed.
            futex::wake(word);
        }
        if slice::used() {
            slice::end();
        }
    }

    /// Whether somebody holds the lock, at some time during the call.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").field("locked", &self.is_locked()).finish_non_exhaustive()
    }
}
