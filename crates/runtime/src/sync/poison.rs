//! Poisoning: a lock remembers that an owner panicked while it held it.

use std::sync::LockResult;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// Set for good (until cleared) when a guard is dropped by a panic that began while it was held.
///
/// Relaxed is enough: the flag is written before the lock is released and read after it is
/// acquired.
pub(crate) struct Flag(AtomicBool);

/// Was the thread panicking when it took the lock?
#[derive(Clone, Copy)]
pub(crate) struct WasPanicking(bool);

impl Flag {
    pub(crate) const fn new() -> Flag {
        Flag(AtomicBool::new(false))
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn clear(&self) {
        self.0.store(false, Relaxed);
    }

    /// To be called when the lock has been taken.
    #[inline]
    pub(crate) fn enter(&self) -> WasPanicking {
        WasPanicking(thread::panicking())
    }

    /// To be called before the lock is released.
    #[inline]
    pub(crate) fn leave(&self, entry: WasPanicking) {
        if !entry.0 && thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }

    /// Wraps what the lock gives out.
    #[inline]
    pub(crate) fn check<T>(&self, value: T) -> LockResult<T> {
        if self.get() { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}
