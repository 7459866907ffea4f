//! A global allocator of the program's own, whose code is preempted like any other.
//!
//! It notices when it is entered on a thread that is inside it already, as would happen if the
//! runtime allocated or freed on the stack of a preempted thread; and it has a lock, whose holder
//! may be preempted, so the runtime must not allocate where it could not wait.

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
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use support::{Rng, Setup, spin, stats, until_preempted};

/// So large that a closure with it goes to the heap; but unoptimised code moves it so often that
/// stacks overflow.
const LARGE: usize = if cfg!(debug_assertions) { 100 } else { 70_000 };

struct Slow;

thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });
static LOCK: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
/// Do work while the lock is held, so that a preemption there is likely?
static DAWDLE: AtomicBool = AtomicBool::new(false);

fn enter() {
    if INSIDE.replace(true) {
        eprintln!("the allocator was entered on a thread that is inside it");
        std::process::abort();
    }
    // Spinning for a lock whose holder is preempted ends when the spinner's quantum does, unless
    // preemption is disabled.
    for i in 0u64.. {
        if LOCK.compare_exchange_weak(false, true, Acquire, Relaxed).is_ok() {
            break;
        }
        if i > 2_000_000_000 {
            eprintln!("the allocator's lock is not released");
            std::process::abort();
        }
        spin_loop();
    }
    if DAWDLE.load(Relaxed) && CALLS.fetch_add(1, Relaxed).is_multiple_of(4) {
        black_box(spin(300));
    }
}

fn leave() {
    LOCK.store(false, Release);
    INSIDE.set(false);
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Slow {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        enter();
        // SAFETY: the caller's contract.
        let p = unsafe { System.alloc(layout) };
        leave();
        p
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        enter();
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(p, layout) };
        leave();
    }
}

#[global_allocator]
static ALLOCATOR: Slow = Slow;

#[test]
fn the_runtime_allocates_only_where_it_may() {
    for setup in Setup::all() {
        setup.run(|| {
            DAWDLE.store(true, Relaxed);
            quaver::scope(|s| {
                for i in 0..4u64 {
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        until_preempted(setup.preemptions(300), |step| {
                            let large = [step as u8; LARGE];
                            match rng.below(6) {
                                0 => drop(quaver::spawn(move || large[5]).join()),
                                1 => drop(quaver::spawn(move || _ = black_box(large))),
                                2 => {
                                    let named =
                                        quaver::thread::Builder::new().name(format!("{step}"));
                                    drop(named.spawn(move || vec![step; 10]).unwrap());
                                }
                                3 => quaver::sleep(std::time::Duration::from_nanos(
                                    rng.below(20_000),
                                )),
                                4 => quaver::yield_now(),
                                _ => drop(black_box(vec![step; 50])),
                            }
                            // Not so many that memory runs out.
                            while stats().completed + 500 < stats().spawned {
                                quaver::yield_now();
                            }
                        });
                    });
                }
            });
            DAWDLE.store(false, Relaxed);
        });
    }
}
