//! The one place where atomics come from, so that loom can stand in for them.
//!
//! Everything that threads share in this crate goes through these names. With `--cfg loom` they are loom's, and the
//! models in `queue::model` explore every interleaving and every value that the C11 memory model lets a load return.

#[cfg(not(loom))]
pub(crate) use core::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

/// Keeps a value on cache lines of its own. Two lines, because the adjacent-line prefetcher of x86 fetches pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

impl<T> core::ops::Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A spin lock without data: what it protects are atomics, accessed relaxed.
#[derive(Debug, Default)]
pub(crate) struct Spin(AtomicU32);

impl Spin {
    /// Spins until nobody else has it. The holder must not be preempted by the host's scheduler.
    pub(crate) fn lock(&self) -> SpinGuard<'_> {
        use Ordering::{Acquire, Relaxed};
        while self.0.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            while self.0.load(Relaxed) != 0 {
                spin_loop();
            }
        }
        SpinGuard(self)
    }
}

/// Whoever has this holds the lock.
pub(crate) struct SpinGuard<'a>(&'a Spin);

impl Drop for SpinGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}
