//! The tests' allocator, which counts: what members do to a queue they may do in the handler of a
//! signal that has interrupted the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static USES: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        USES.set(USES.get() + 1);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        USES.set(USES.get() + 1);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

/// What this does it does without the heap.
pub(super) fn unused<T>(what: impl FnOnce() -> T) -> T {
    let before = USES.get();
    let result = what();
    assert_eq!(USES.get(), before, "the heap is used");
    result
}
