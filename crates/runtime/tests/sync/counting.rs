//! `Semaphore`, `Barrier` and `WaitGroup` among kernel threads.

use quaver::sync::{AcquireTimeoutError, Barrier, Closed, Semaphore, TryAcquireError, WaitGroup};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn never_more_than_its_permits_inside() {
    const PERMITS: usize = 3;
    let shared = Arc::new((Semaphore::new(PERMITS), AtomicUsize::new(0), AtomicUsize::new(0)));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                for _ in 0..500 {
                    let _permit = shared.0.acquire().unwrap();
                    let inside = shared.1.fetch_add(1, SeqCst) + 1;
                    shared.2.fetch_max(inside, SeqCst);
                    thread::yield_now();
                    shared.1.fetch_sub(1, SeqCst);
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    assert!((1..=PERMITS).contains(&shared.2.load(SeqCst)));
    assert_eq!(shared.0.available_permits(), PERMITS);
}

#[test]
fn permits_add_up() {
    let s = Semaphore::new(0);
    assert_eq!(s.try_acquire().err(), Some(TryAcquireError::NoPermits));
    s.add_permits(3);
    s.add_permits(0);
    s.try_acquire().unwrap().forget();
    drop(s.acquire().unwrap());
    assert_eq!(s.available_permits(), 2);
    assert_eq!(format!("{s:?}"), "Semaphore { permits: 2, waiting: 0, closed: false }");
}

#[test]
fn a_semaphore_that_overflows_panics_and_stays_usable() {
    let s = Semaphore::new(Semaphore::MAX_PERMITS);
    assert!(catch_unwind(|| s.add_permits(1)).is_err());
    assert!(catch_unwind(|| s.add_permits(usize::MAX)).is_err());
    assert_eq!(s.available_permits(), Semaphore::MAX_PERMITS);
    assert!(s.try_acquire().is_ok());
    assert!(catch_unwind(|| Semaphore::new(Semaphore::MAX_PERMITS + 1)).is_err());
}

#[test]
fn a_timed_acquire_waits_at_least_so_long() {
    let s = Semaphore::new(0);
    let wait = Duration::from_millis(20);
    let start = Instant::now();
    assert_eq!(s.acquire_timeout(wait).err(), Some(AcquireTimeoutError::TimedOut));
    assert!(start.elapsed() >= wait);
    s.add_permits(1);
    assert!(s.acquire_timeout(Duration::ZERO).is_ok());
}

#[test]
fn a_closed_semaphore_fails_everybody() {
    let s = Semaphore::new(5);
    let held = s.acquire().unwrap();
    s.close();
    assert!(s.is_closed());
    assert_eq!(s.acquire().err(), Some(Closed));
    assert_eq!(s.try_acquire().err(), Some(TryAcquireError::Closed));
    assert_eq!(s.acquire_timeout(Duration::MAX).err(), Some(AcquireTimeoutError::Closed));
    drop(held);
    assert_eq!(s.available_permits(), 5);
}

#[test]
fn an_owned_permit_keeps_the_semaphore() {
    let s = Arc::new(Semaphore::new(2));
    let kept = s.clone().acquire_owned().unwrap();
    let forgotten = s.clone().acquire_owned().unwrap();
    forgotten.forget();
    assert_eq!((Arc::strong_count(&s), s.available_permits()), (2, 0));
    drop(kept);
    assert_eq!((Arc::strong_count(&s), s.available_permits()), (1, 1));
}

/// Timed waiters come and go while permits are released: none is lost or doubled.
#[test]
fn timeouts_lose_no_permit() {
    const PERMITS: usize = 2;
    let s = Arc::new(Semaphore::new(PERMITS));
    let threads: Vec<_> = (0..6u64)
        .map(|i| {
            let s = s.clone();
            thread::spawn(move || {
                for n in 0..200 {
                    if i < 2 {
                        drop(s.acquire().unwrap());
                    } else if let Ok(permit) = s.acquire_timeout(Duration::from_micros(n * i % 60))
                    {
                        thread::yield_now();
                        drop(permit);
                    }
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    assert_eq!(s.available_permits(), PERMITS);
}

#[test]
fn a_barrier_separates_rounds() {
    const N: usize = 6;
    const ROUNDS: usize = 100;
    let shared = Arc::new((Barrier::new(N), AtomicUsize::new(0)));
    let threads: Vec<_> = (0..N)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut led = 0;
                for round in 1..=ROUNDS {
                    shared.1.fetch_add(1, SeqCst);
                    led += usize::from(shared.0.wait().is_leader());
                    let arrived = shared.1.load(SeqCst);
                    assert!((round * N..(round + 1) * N).contains(&arrived));
                }
                led
            })
        })
        .collect();
    let led: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(led, ROUNDS);
}

/// More threads than the barrier's number: rounds overlap, and everybody gets through.
#[test]
fn a_barrier_with_a_crowd() {
    const WAITS: usize = 600;
    let shared = Arc::new((Barrier::new(2), AtomicUsize::new(0)));
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut led = 0;
                while shared.1.fetch_add(1, SeqCst) < WAITS {
                    led += usize::from(shared.0.wait().is_leader());
                }
                led
            })
        })
        .collect();
    let led: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(led, WAITS / 2);
}

#[test]
fn small_barriers_never_wait() {
    for n in [0, 1] {
        let barrier = Barrier::new(n);
        assert!(barrier.wait().is_leader() && barrier.wait().is_leader());
    }
}

#[test]
fn a_wait_group_waits_for_its_tasks() {
    let group = WaitGroup::new();
    let sum = Arc::new(AtomicUsize::new(0));
    for round in 1..=20 {
        for _ in 0..5 {
            let (working, sum) = (group.guard(), sum.clone());
            thread::spawn(move || {
                sum.fetch_add(1, SeqCst);
                drop(working);
            });
        }
        group.wait();
        assert_eq!((sum.load(SeqCst), group.count()), (5 * round, 0));
    }
    group.wait();
}

#[test]
fn a_panicking_task_is_done() {
    let group = WaitGroup::new();
    let working = group.guard();
    let task = thread::spawn(move || {
        let _working = working;
        panic!("on purpose");
    });
    group.wait();
    assert!(task.join().is_err());
}

#[test]
fn a_wait_group_rejects_wrong_counts() {
    let group = WaitGroup::new();
    assert!(catch_unwind(|| group.done()).is_err());
    group.add(usize::MAX);
    assert!(catch_unwind(|| group.add(1)).is_err());
    assert_eq!(group.count(), usize::MAX);
    assert_eq!(format!("{group:?}"), format!("WaitGroup {{ count: {}, .. }}", usize::MAX));
}
