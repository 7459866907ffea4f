//! Threads that contend for one lock.

use std::arch::x86_64::_rdtsc;
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::locks::BenchLock;

/// Cycles of the TSC between two critical sections of a thread.
const BETWEEN: u64 = 100;

/// What threads have done.
#[derive(Debug)]
pub struct Done {
    /// Critical sections.
    pub ops: u64,
    /// By how many the words differ from the number of sections: these had no exclusion.
    pub lost: u64,
    /// How long they had, on the wall, until the last one ended.
    pub took: Duration,
}

/// A line of the cache (two, as processors fetch them in pairs).
#[repr(align(128))]
struct Line(UnsafeCell<u64>);

struct Shared<L> {
    lock: L,
    lines: [Line; 2],
}

// SAFETY: the lines are used under the lock only.
unsafe impl<L: Sync> Sync for Shared<L> {}

/// Lets `threads` contend for a lock for `time`.
pub fn run<L: BenchLock>(threads: usize, time: Duration) -> Done {
    let shared = Shared { lock: L::create(), lines: [const { Line(UnsafeCell::new(0)) }; 2] };
    let (stop, start) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let (ops, took) = std::thread::scope(|s| {
        let one = || {
            start.wait();
            work(&shared, &stop)
        };
        let all: Vec<_> = (0..threads).map(|_| s.spawn(one)).collect();
        start.wait();
        let begun = Instant::now();
        std::thread::sleep(time);
        stop.store(true, Relaxed);
        let ops: u64 = all.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        (ops, begun.elapsed())
    });
    let lost = shared.lines.map(|line| line.0.into_inner().abs_diff(ops));
    Done { ops, lost: lost[0].max(lost[1]), took }
}

fn work<L: BenchLock>(shared: &Shared<L>, stop: &AtomicBool) -> u64 {
    let mut node = L::Node::default();
    let mut ops = 0;
    while !stop.load(Relaxed) {
        shared.lock.lock(&mut node);
        for line in &shared.lines {
            // SAFETY: under the lock.
            unsafe { *black_box(line.0.get()) += 1 };
        }
        // SAFETY: taken above, with this node.
        unsafe { shared.lock.unlock(&mut node) };
        ops += 1;
        // SAFETY: every x86-64 has it.
        let begun = unsafe { _rdtsc() };
        // SAFETY: as above.
        while unsafe { _rdtsc() }.wrapping_sub(begun) < BETWEEN {}
    }
    ops
}
