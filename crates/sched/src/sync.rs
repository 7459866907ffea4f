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
