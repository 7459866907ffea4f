//! An allocator whose calls are not interrupted.

use crate::preempt::NoPreempt;
use core::alloc::{GlobalAlloc, Layout};

/// A global allocator in whose calls a thread is not preempted.
///
/// An allocator that is linked into the program (mimalloc, jemalloc, one of your own) is code like
/// any other: a thread can be preempted in the middle of it, with a lock of it held. That is safe,
/// as with every lock, but whoever wants memory then waits until the holder's turn has come. With
/// this wrapper a request that comes inside the allocator is taken when the call ends. glibc's
/// `malloc` needs no wrapper: code of the C library is recognised by its address, and so are
/// jemalloc, mimalloc and tcmalloc as shared libraries, or linked statically into a program that
/// still has its symbols.
///
/// Each call is a region as of [`no_preempt`](crate::no_preempt): it may still wait, for a lock or
/// in the kernel. Outside user threads it costs one test of a flag, on a user thread an increment
/// and a decrement of the thread's own counter.
///
/// ```
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOCATOR: quaver::Guarded<System> = quaver::Guarded::new(System);
/// # fn main() { assert_eq!(vec![1; 100].len(), 100); }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Guarded<A>(A);

impl<A> Guarded<A> {
    /// Guards `allocator`.
    pub const fn new(allocator: A) -> Guarded<A> {
        Guarded(allocator)
    }

    /// The allocator itself, for whatever else it offers; such calls are not guarded.
    pub const fn inner(&self) -> &A {
        &self.0
    }
}

// SAFETY: every call is handed on unchanged. The region neither allocates nor panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Guarded<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _region = NoPreempt::new();
        // SAFETY: the caller's contract.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _region = NoPreempt::new();
        // SAFETY: the caller's contract.
        unsafe { self.0.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _region = NoPreempt::new();
        // SAFETY: the caller's contract.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _region = NoPreempt::new();
        // SAFETY: the caller's contract.
        unsafe { self.0.realloc(at, layout, size) }
    }
}
