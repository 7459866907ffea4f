//! Condition variables in two words.
//!
//! A waiter registers (counts itself and reads `seq`) while it owns the mutex, releases the mutex,
//! and sleeps unless `seq` has changed. A notifier that finds somebody registered changes `seq` and
//! wakes. So a notification that comes after the registration is never lost; one that meets a
//! waiter on its way to sleep makes that one return at once, and wakes another needlessly, which
//! the interface allows.
//!
//! A waiter's last access is the decrement of `waiters`, so [`Condvar::quiesce`] tells when the
//! words may be reused.

use super::futex::{self, End, Limits};
use crate::park::shim::AtomicU32;
use core::sync::atomic::Ordering::*;

/// See the module documentation. All zero: nobody waits.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Condvar {
    seq: AtomicU32,
    waiters: AtomicU32,
}

/// A registration; to be used up by [`Condvar::wait`].
#[derive(Debug)]
#[must_use = "waits"]
pub struct Registered(u32);

impl Condvar {
    /// Registers the caller, which owns the mutex and releases it before it waits.
    pub fn register(&self) -> Registered {
        self.waiters.fetch_add(1, SeqCst);
        Registered(self.seq.load(SeqCst))
    }

    /// Waits for a notification that comes after the registration. The mutex is not taken again.
    pub fn wait(&self, registered: Registered, limits: &Limits<'_>) -> End {
        let end = futex::wait(&self.seq, registered.0, limits);
        let word = &raw const self.waiters;
        if self.waiters.fetch_sub(1, Release) == 1 + QUIESCING {
            futex::wake(word, u32::MAX);
        }
        end
    }

    /// Wakes up to `n` waiters.
    pub fn notify(&self, n: u32) {
        if self.waiters.load(SeqCst) & !QUIESCING != 0 {
            self.seq.fetch_add(1, SeqCst);
            futex::wake(&self.seq, n);
        }
    }

    /// Waits until those that were woken have left.
    pub fn quiesce(&self) {
        let mut waiters = self.waiters.fetch_or(QUIESCING, SeqCst) | QUIESCING;
        while waiters != QUIESCING {
            futex::wait(&self.waiters, waiters, &Limits::NONE);
            waiters = self.waiters.load(Acquire);
        }
        self.waiters.store(0, Relaxed);
    }
}

/// Somebody waits for the last waiter to leave.
const QUIESCING: u32 = 1 << 31;
