//! Models: small programs over the primitives, run by loom in every interleaving (up to a number of
//! preemptions).
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p quaver --release --lib
//! ```
//!
//! Deadlock, a lost wake-up among them, is what loom itself reports: all threads blocked. Data
//! races on the lists are reported by its cells, leaked channels by its `Arc`. A deadline that has
//! passed stands for a timeout at any moment.

mod announce;
mod channel;
mod condvar;
mod lock;
mod lot;
mod once;
mod park;
mod semaphore;

use crate::park::shim::GATES;
use loom::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Explores a `program` of two threads, with at most `preemptions` of running threads (blocking is
/// not counted).
pub(crate) fn explore(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(program);
}

/// As [`explore`], for three threads: those that would spin queue at a
/// [gate](crate::park::shim::Gate).
pub(crate) fn explore_crowd(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    GATES.set(true);
    explore(preemptions, program);
    GATES.set(false);
}

/// Ends all threads.
fn join<const N: usize>(threads: [JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A deadline that has passed.
fn past() -> Instant {
    let now = Instant::now();
    now.checked_sub(Duration::from_secs(1)).unwrap_or(now)
}
