//! An allocator whose own lock is `foreign::lock`, as the mutexes of unmodified programs are: a
//! thread that finds it taken must not allocate.

use quaver::foreign::futex::Limits;
use quaver::foreign::lock;
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;

struct Locked(AtomicU32);

impl Locked {
    fn holding<T>(&self, f: impl FnOnce() -> T) -> T {
        lock::lock(&self.0, &Limits::NONE);
        let result = f();
        // So that others find it taken.
        (0..200).for_each(|i| _ = black_box(i));
        lock::unlock(&self.0);
        result
    }
}

// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: handed on.
        self.holding(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: handed on.
        self.holding(|| unsafe { System.dealloc(at, layout) })
    }
}

#[global_allocator]
static ALLOCATOR: Locked = Locked(AtomicU32::new(lock::FREE));

/// Each thread meets a taken lock before anything of this crate's has been called on it.
#[test]
fn new_threads_contend() {
    const THREADS: usize = 8;
    for _ in 0..50 {
        let together = Barrier::new(THREADS);
        std::thread::scope(|s| {
            for i in 0..THREADS {
                let together = &together;
                s.spawn(move || {
                    together.wait();
                    (0..200).for_each(|n| _ = black_box(vec![i; n]));
                });
            }
        });
    }
}
