//! `Guarded`: nobody is switched out inside the program's allocator, and requests that come there
//! are not lost.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use support::{Rng, Setup, spin, stats, until_preempted};

/// Takes its time on user threads while `DAWDLE` is set, and looks whether anybody else gets in
/// meanwhile.
struct Slow;

static DAWDLE: AtomicBool = AtomicBool::new(false);
/// Calls of each kind, on user threads that dawdled.
static CALLS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
thread_local!(static CONCERNED: Cell<bool> = const { Cell::new(false) });
/// Threads of the only worker inside the allocator.
static INSIDE: AtomicU64 = AtomicU64::new(0);

fn dawdle<T>(kind: usize, call: impl FnOnce() -> T) -> T {
    if !DAWDLE.load(Relaxed) || !CONCERNED.get() {
        return call();
    }
    if INSIDE.fetch_add(1, Relaxed) > 0 {
        eprintln!("a thread was switched out inside the allocator");
        std::process::abort();
    }
    if CALLS[kind].fetch_add(1, Relaxed).is_multiple_of(8) {
        // Often longer than a quantum.
        black_box(spin(4_000));
    }
    let result = call();
    INSIDE.fetch_sub(1, Relaxed);
    result
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Slow {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        dawdle(0, || unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        dawdle(1, || unsafe { System.dealloc(p, layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        dawdle(2, || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's contract.
        dawdle(3, || unsafe { System.realloc(p, layout, size) })
    }
}

#[global_allocator]
static ALLOCATOR: quaver::Guarded<Slow> = quaver::Guarded::new(Slow);

#[test]
fn nobody_is_switched_out_inside_the_allocator() {
    for setup in Setup::clocks(1) {
        let before = CALLS.each_ref().map(|c| c.load(Relaxed));
        setup.run(|| {
            DAWDLE.store(true, Relaxed);
            quaver::scope(|s| {
                for i in 0..3 {
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        CONCERNED.set(true);
                        until_preempted(setup.preemptions(100), |step| {
                            let n = rng.below(100) as usize + 1;
                            let mut v = black_box(vec![step; n]);
                            let z = black_box(vec![0u8; n]);
                            v.reserve_exact(2 * n);
                            assert!(v.iter().all(|&x| x == step) && z.iter().all(|&x| x == 0));
                        });
                    });
                }
            });
            DAWDLE.store(false, Relaxed);
            assert!(stats().preempt_deferred > 0, "no request came inside the allocator");
        });
        for (kind, before) in before.into_iter().enumerate() {
            assert!(CALLS[kind].load(Relaxed) > before, "kind {kind} was not called");
        }
    }
}

#[test]
fn the_allocator_itself_is_within_reach() {
    // SAFETY: the layout is not empty, and the block is freed with it.
    unsafe {
        let layout = Layout::from_size_align(24, 8).unwrap();
        let p = ALLOCATOR.inner().alloc(layout);
        assert!(!p.is_null());
        ALLOCATOR.dealloc(p, layout);
    }
}
