//! Small programs after those of FlexGuard 5.3. Each has a fixed amount of work and a result that
//! is checked.

pub mod dedup;
pub mod index;
pub mod raytrace;
pub mod streamcluster;

use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::locks::{BenchLock, cycles};

/// What a program did.
#[derive(Debug)]
pub struct Ran {
    /// Operations.
    pub ops: u64,
    /// How long they took, on the wall.
    pub took: Duration,
    /// What is wrong with the result.
    pub wrong: Option<String>,
}

/// How a program runs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many threads work.
    pub threads: usize,
    /// How many compute beside them.
    pub background: usize,
    /// How much work: 1 is the full amount, which takes a second or a few.
    pub scale: f64,
}

impl Size {
    /// A share of an amount of work; at least one.
    pub fn of(&self, full: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(1)
    }

    /// Runs `work` in all threads at once, beside the background. Returns what they return, in
    /// order, and how long it took them.
    pub fn run<T: Send>(&self, work: impl Fn(usize) -> T + Sync) -> (Vec<T>, Duration) {
        let start = Barrier::new(self.threads + 1);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|s| {
            let (start, work) = (&start, &work);
            let one = move |index| {
                start.wait();
                work(index)
            };
            let all: Vec<_> = (0..self.threads).map(|i| s.spawn(move || one(i))).collect();
            for _ in 0..self.background {
                s.spawn(|| {
                    while !stopped() {
                        std::hint::black_box(cycles());
                    }
                });
            }
            start.wait();
            let begun = Instant::now();
            let results = all.into_iter().map(|t| t.join().expect("no panic")).collect();
            let took = begun.elapsed();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            (results, took)
        })
    }
}

/// A value behind a lock of any kind.
pub struct Locked<L, T> {
    lock: L,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used under the lock only.
unsafe impl<L: Sync, T: Send> Sync for Locked<L, T> {}

impl<L: BenchLock, T> Locked<L, T> {
    /// Free.
    pub fn new(value: T) -> Self {
        Self { lock: L::create(), value: UnsafeCell::new(value) }
    }

    /// Uses the value under the lock.
    pub fn with<R>(&self, node: &mut L::Node, use_it: impl FnOnce(&mut T) -> R) -> R {
        self.lock.lock(node);
        // SAFETY: under the lock.
        let result = use_it(unsafe { &mut *self.value.get() });
        // SAFETY: taken above, with this node.
        unsafe { self.lock.unlock(node) };
        result
    }

    /// The value, when all threads have ended.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::locks::Use;

    fn check(program: impl Fn(Size, Kind) -> Ran) {
        for kind in Kind::ALL {
            if let Err(why) = kind.prepare() {
                eprintln!("skipped: {}: {why}", kind.name());
                continue;
            }
            for threads in [1, 3] {
                let ran = program(Size { threads, background: 0, scale: 0.002 }, kind);
                assert_eq!(ran.wrong, None, "{} with {threads} threads", kind.name());
                assert!(ran.ops > 0);
            }
        }
    }

    #[test]
    fn the_index_is_right_with_all_locks() {
        check(|size, kind| kind.with(index::Index { size, leaves: 1 << 10 }));
    }

    #[test]
    fn dedup_is_right_with_all_locks() {
        check(|size, kind| kind.with(dedup::Dedup { size, buckets: 1 << 10 }));
    }

    #[test]
    fn raytrace_is_right_with_all_locks() {
        check(|size, kind| kind.with(raytrace::Raytrace { size }));
    }

    #[test]
    fn streamcluster_is_right_with_all_locks() {
        check(|size, kind| kind.with(streamcluster::Streamcluster { size }));
    }

    /// A lock that is none: the checks find it.
    #[test]
    fn a_lock_that_does_not_exclude_is_found_out() {
        struct Nothing;
        impl BenchLock for Nothing {
            type Node = ();
            fn create() -> Self {
                Self
            }
            fn lock(&self, (): &mut ()) -> u64 {
                std::thread::yield_now();
                0
            }
            unsafe fn unlock(&self, (): &mut ()) {}
        }
        let size = Size { threads: 4, background: 0, scale: 0.002 };
        // A section that is interrupted in its middle, so that two threads meet on one CPU, too.
        let shared: Locked<Nothing, u64> = Locked::new(0);
        size.run(|_| {
            for _ in 0..200 {
                shared.with(&mut (), |value| {
                    let before = *value;
                    std::thread::yield_now();
                    *value = before + 1;
                });
            }
        });
        assert!(shared.into_inner() < 800);
        let ran = index::Index { size, leaves: 1 }.with::<crate::locks::Pthread>();
        assert_eq!(ran.wrong, None);
    }
}
