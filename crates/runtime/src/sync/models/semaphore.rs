//! Semaphore, and through it the wait list with timeouts; barrier and wait group.

use super::{explore, explore_crowd, join};
use crate::sync::{AcquireTimeoutError, Barrier, Closed, Semaphore, TryAcquireError, WaitGroup};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;
use std::time::Duration;

#[test]
fn permits_exclude_and_come_back() {
    explore_crowd(3, || {
        let s = Arc::new((Semaphore::new(1), AtomicU32::new(0)));
        let work = |s: &(Semaphore, AtomicU32)| {
            let _permit = s.0.acquire().unwrap();
            // Relaxed: the semaphore must order these.
            let v = s.1.load(Relaxed);
            s.1.store(v + 1, Relaxed);
        };
        let ts = [0, 1].map(|_| {
            let s = s.clone();
            thread::spawn(move || work(&s))
        });
        work(&s);
        join(ts);
        assert_eq!((s.1.load(Relaxed), s.0.available_permits()), (3, 1));
    });
}

#[test]
fn a_permit_is_not_lost_in_a_timeout() {
    explore(6, || {
        let s = Arc::new(Semaphore::new(0));
        let t = thread::spawn({
            let s = s.clone();
            move || match s.acquire_timeout(Duration::ZERO) {
                Ok(permit) => {
                    permit.forget();
                    1
                }
                Err(AcquireTimeoutError::TimedOut) => 0,
                Err(AcquireTimeoutError::Closed) => unreachable!(),
            }
        });
        s.add_permits(1);
        assert_eq!(t.join().unwrap() + s.available_permits(), 1);
    });
}

#[test]
fn a_timeout_leaves_the_others_in_the_queue() {
    explore_crowd(3, || {
        let s = Arc::new(Semaphore::new(0));
        let hasty = thread::spawn({
            let s = s.clone();
            move || s.acquire_timeout(Duration::ZERO).map(|p| drop(p))
        });
        let patient = thread::spawn({
            let s = s.clone();
            move || s.acquire().unwrap().forget()
        });
        s.add_permits(1);
        patient.join().unwrap();
        let _ = hasty.join().unwrap();
        assert_eq!(s.try_acquire().err(), Some(TryAcquireError::NoPermits));
    });
}

#[test]
fn closing_wakes() {
    explore(6, || {
        let s = Arc::new(Semaphore::new(0));
        let t = thread::spawn({
            let s = s.clone();
            move || s.acquire().map(|p| p.forget())
        });
        s.close();
        assert_eq!(t.join().unwrap(), Err(Closed));
    });
}

#[test]
fn a_barrier_is_used_twice() {
    explore(5, || {
        let s = Arc::new((Barrier::new(2), AtomicU32::new(0)));
        let rounds = |s: &(Barrier, AtomicU32)| {
            let mut led = 0;
            for round in 1..=2 {
                s.1.fetch_add(1, Relaxed);
                led += u32::from(s.0.wait().is_leader());
                assert!(s.1.load(Relaxed) >= 2 * round);
            }
            led
        };
        let t = thread::spawn({
            let s = s.clone();
            move || rounds(&s)
        });
        let led = rounds(&s);
        assert_eq!(led + t.join().unwrap(), 2);
    });
}

#[test]
fn a_wait_group_waits_for_all() {
    explore_crowd(3, || {
        let group = WaitGroup::new();
        let sum = Arc::new(AtomicU32::new(0));
        let ts = [1, 2].map(|n| {
            let (working, sum) = (group.guard(), sum.clone());
            thread::spawn(move || {
                sum.fetch_add(n, Relaxed);
                drop(working);
            })
        });
        group.wait();
        assert_eq!(sum.load(Relaxed), 3);
        join(ts);
    });
}
