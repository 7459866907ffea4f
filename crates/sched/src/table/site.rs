//! Where tables are made, for one kernel thread and for as long as it makes a policy.

use core::{alloc::Layout, cell::Cell, ptr::NonNull};

#[derive(Clone, Copy)]
enum Site {
    Heap,
    /// On the heap, and what it would take is counted.
    Measured {
        used: usize,
    },
    /// One after the other, from `next` on.
    Memory {
        next: NonNull<u8>,
        left: usize,
    },
}

std::thread_local! {
    static SITE: Cell<Site> = const { Cell::new(Site::Heap) };
}

/// Back to the heap, also after a panic.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        SITE.set(Site::Heap);
    }
}

/// The next piece of the site's memory; `None`: it belongs on the heap.
///
/// # Panics
///
/// If the memory is used up.
pub(crate) fn take(layout: Layout) -> Option<NonNull<u8>> {
    match SITE.get() {
        Site::Heap => None,
        Site::Measured { used } => {
            let begin = used.next_multiple_of(layout.align());
            SITE.set(Site::Measured { used: begin + layout.size() });
            None
        }
        Site::Memory { next, left } => {
            let skip = next.align_offset(layout.align());
            let need = skip.saturating_add(layout.size());
            assert!(need <= left, "the memory is too small for this policy");
            // SAFETY: within the memory: `need` is no more than what is left.
            let (at, after) = unsafe { (next.add(skip), next.add(need)) };
            SITE.set(Site::Memory { next: after, left: left - need });
            Some(at)
        }
    }
}

/// Carries `make` out; how many bytes it would take from memory that is aligned to pages.
pub(crate) fn measure(make: impl FnOnce()) -> usize {
    SITE.set(Site::Measured { used: 0 });
    let _back = Back;
    make();
    match SITE.get() {
        Site::Measured { used } => used,
        _ => 0,
    }
}

/// Carries `make` out with tables in `memory`.
///
/// # Safety
///
/// The memory is zeroed and used by nobody else, and stays for as long as what is made.
pub(crate) unsafe fn within<R>(memory: NonNull<[u8]>, make: impl FnOnce() -> R) -> R {
    SITE.set(Site::Memory { next: memory.cast(), left: memory.len() });
    let _back = Back;
    make()
}
