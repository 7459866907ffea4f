//! Holders of mutexes go on until the last one is free, or for the bound.

use crate::support::{Setup, spin};
use quaver::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);
/// About twenty quanta.
const WORK: u64 = 2_000_000;

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Runs `f` beside a thread that does nothing but count.
fn beside(setup: &Setup, bound: Duration, f: impl Fn(&AtomicU64) + Sync) {
    setup.run_with(setup.builder().mutex_extension(bound), || {
        let (others, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        quaver::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    others.fetch_add(1, SeqCst);
                }
            });
            // It has begun, so it waits from now on whenever this thread runs.
            while others.load(SeqCst) == 0 {
                quaver::yield_now();
            }
            // Also if an assertion fails.
            let _end = Stop(&stop);
            f(&others);
        });
    });
}

#[test]
fn who_holds_a_mutex_is_preempted_when_the_last_is_free() {
    for setup in Setup::with_workers(1) {
        let (one, two) = (Mutex::new(0), Mutex::new(0));
        beside(&setup, LONG, |others| {
            // A clock that has no CPU for a while sends nothing; it has one most of the time.
            let mut at_the_end = 0;
            while at_the_end < 20 {
                let outer = one.lock().unwrap();
                let first = others.load(SeqCst);
                spin(WORK);
                drop(two.lock().unwrap());
                // What ends a section of the runtime, where a request may have been left.
                quaver::no_preempt(|| ());
                spin(1000);
                assert_eq!(others.load(SeqCst), first, "interrupted");
                drop(outer);
                at_the_end += u64::from(others.load(SeqCst) != first);
            }
        });
    }
}

#[test]
fn the_bound_ends_it() {
    for setup in Setup::with_workers(1) {
        let mutex = Mutex::new(0);
        beside(&setup, Duration::from_micros(200), |others| {
            for _ in 0..20 {
                let _held = mutex.lock().unwrap();
                let first = others.load(SeqCst);
                // Ends only if the other runs while the mutex is held.
                while others.load(SeqCst) == first {}
            }
        });
    }
}

#[test]
fn without_a_mutex_nothing_is_put_off() {
    for setup in Setup::with_workers(1) {
        let mutex = Mutex::new(0);
        beside(&setup, LONG, |others| {
            for _ in 0..20 {
                drop(mutex.lock().unwrap());
                let first = others.load(SeqCst);
                while others.load(SeqCst) == first {}
            }
        });
    }
}

/// A wait gives the mutex back, and its thread holds as many as before.
#[test]
fn a_wait_for_a_condition_leaves_no_count() {
    for setup in Setup::with_workers(1) {
        let (mutex, condition) = (Mutex::new(0), quaver::sync::Condvar::new());
        beside(&setup, LONG, |others| {
            for _ in 0..20 {
                let held = mutex.lock().unwrap();
                let short = Duration::from_micros(10);
                drop(condition.wait_timeout(held, short).unwrap());
                let first = others.load(SeqCst);
                while others.load(SeqCst) == first {}
            }
        });
    }
}
