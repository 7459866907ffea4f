//! Trees, crowds and turns of threads.

use crate::support::drops::Drops;
use crate::support::{Setup, full, on_runtime, quiet_expected_panics};
use crate::{cooperative, wait_until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let a = quaver::spawn(move || fib(n - 1));
    let b = quaver::spawn(move || fib(n - 2));
    a.join().unwrap() + b.join().unwrap()
}

#[test]
fn trees_of_threads() {
    for setup in Setup::all() {
        setup.run(|| assert_eq!(fib(15), 610));
    }
}

/// Many threads that all exist at a time, blocked.
#[test]
fn a_hundred_thousand_threads() {
    let n = if full() { 100_000 } else { 20_000 };
    let small = quaver::platform::facts().min_stack_size.max(32 * 1024);
    for setup in Setup::clocks(2) {
        setup.run_with(setup.builder().stack_size(small), move || {
            let gate = Arc::new((Mutex::new(false), Condvar::new()));
            let inside = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..n)
                .map(|i| {
                    let (gate, inside) = (gate.clone(), inside.clone());
                    quaver::spawn(move || {
                        inside.fetch_add(1, SeqCst);
                        let mut open = gate.0.lock().unwrap();
                        while !*open {
                            open = gate.1.wait(open).unwrap();
                        }
                        drop(open);
                        i
                    })
                })
                .collect();
            wait_until(|| inside.load(SeqCst) == n);
            *gate.0.lock().unwrap() = true;
            gate.1.notify_all();
            let sum: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
            assert_eq!(sum, n * (n - 1) / 2);
        });
    }
    let short = || {
        for _ in 0..100_000 / 50 {
            let batch: Vec<_> = (0..50u32).map(|i| quaver::spawn(move || i)).collect();
            assert_eq!(batch.into_iter().map(|t| t.join().unwrap()).sum::<u32>(), 1225);
        }
    };
    for setup in Setup::clocks(1) {
        setup.run(short);
    }
}

#[test]
fn the_limit_of_threads_is_an_error() {
    quiet_expected_panics();
    for setup in Setup::clocks(1) {
        setup.run_with(setup.builder().max_threads(8), || {
            let drops = Drops::default();
            let block = Arc::new(Mutex::new(()));
            for _round in 0..3 {
                let held = block.lock().unwrap();
                let threads: Vec<_> = (0..7)
                    .map(|_| {
                        let (block, value) = (block.clone(), drops.value());
                        quaver::spawn(move || {
                            drop(block.lock().unwrap());
                            drop(value);
                        })
                    })
                    .collect();
                let value = drops.value();
                let e = quaver::thread::Builder::new().spawn(move || drop(value)).unwrap_err();
                let text = e.to_string();
                assert!(text.contains("limit of 8") && text.contains("max_threads"), "{text}");
                let value = drops.value();
                let panic = catch_unwind(AssertUnwindSafe(|| quaver::spawn(move || drop(value))));
                let panic = panic.map(drop).unwrap_err();
                let text = panic.downcast_ref::<String>().unwrap();
                assert!(text.contains("cannot spawn") && text.contains("max_threads"), "{text}");
                assert!(quaver::is_preemptible(), "a failed spawn leaves no region open");
                drop(held);
                threads.into_iter().for_each(|t| t.join().unwrap());
            }
            assert_eq!(drops.counts(), (27, 27));
        });
    }
}

/// Threads that yield take turns, strictly.
#[test]
fn yielding_is_fair() {
    const THREADS: usize = 5;
    const ROUNDS: usize = 2_000;
    for policy in ["two-queue", "rr", "fifo", "ws"] {
        let log = on_runtime(cooperative().policy_str(policy).quantum(None), || {
            let log = Arc::new(Mutex::new(Vec::new()));
            let threads: Vec<_> = (0..THREADS)
                .map(|i| {
                    let log = log.clone();
                    quaver::spawn(move || {
                        for _ in 0..ROUNDS {
                            log.lock().unwrap().push(i);
                            quaver::yield_now();
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            std::mem::take(&mut *log.lock().unwrap())
        });
        assert_eq!(log.len(), THREADS * ROUNDS);
        let mut turns = [0usize; THREADS];
        for i in log {
            turns[i] += 1;
            let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
            assert!(most - least <= 2, "{policy}: {turns:?}");
        }
    }
}
