//! `Condvar` among kernel threads.

use quaver::sync::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn hands_a_turn_back_and_forth() {
    const TURNS: u32 = 2_000;
    let shared = Arc::new((Mutex::new(0u32), Condvar::new()));
    let play = |shared: &(Mutex<u32>, Condvar), parity: u32| {
        for _ in 0..TURNS {
            let guard = shared.0.lock().unwrap();
            let mut turn = shared.1.wait_while(guard, |t| *t % 2 != parity).unwrap();
            *turn += 1;
            shared.1.notify_one();
        }
    };
    let other = thread::spawn({
        let shared = shared.clone();
        move || play(&shared, 1)
    });
    play(&shared, 0);
    other.join().unwrap();
    assert_eq!(*shared.0.lock().unwrap(), 2 * TURNS);
}

#[test]
fn notify_all_reaches_everybody() {
    const N: usize = 40;
    for under_the_mutex in [true, false] {
        let shared = Arc::new((Mutex::new((0usize, false)), Condvar::new(), Condvar::new()));
        let threads: Vec<_> = (0..N)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut guard = shared.0.lock().unwrap();
                    guard.0 += 1;
                    shared.2.notify_one();
                    let mut guard = shared.1.wait_while(guard, |s| !s.1).unwrap();
                    guard.0 -= 1;
                })
            })
            .collect();
        // Whoever is counted waits, because the count is read under the mutex.
        let mut guard = shared.2.wait_while(shared.0.lock().unwrap(), |s| s.0 < N).unwrap();
        guard.1 = true;
        let guard = under_the_mutex.then_some(guard);
        shared.1.notify_all();
        drop(guard);
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!(shared.0.lock().unwrap().0, 0);
    }
}

#[test]
fn notifying_nobody_is_not_remembered() {
    let (m, c) = (Mutex::new(()), Condvar::new());
    c.notify_one();
    c.notify_all();
    let (_guard, result) = c.wait_timeout(m.lock().unwrap(), Duration::from_millis(5)).unwrap();
    assert!(result.timed_out());
}

#[test]
fn a_timeout_waits_at_least_so_long_and_has_the_mutex() {
    let (m, c) = (Mutex::new(7), Condvar::new());
    let wait = Duration::from_millis(20);
    let start = Instant::now();
    let (guard, result) = c.wait_timeout_while(m.lock().unwrap(), wait, |_| true).unwrap();
    assert!(result.timed_out() && start.elapsed() >= wait);
    assert!(m.try_lock().is_err());
    assert_eq!(*guard, 7);
    drop(guard);
    assert!(m.try_lock().is_ok());
}

#[test]
fn a_condition_that_does_not_hold_means_no_wait() {
    let (m, c) = (Mutex::new(0), Condvar::new());
    let guard = c.wait_while(m.lock().unwrap(), |_| false).unwrap();
    let (_guard, result) = c.wait_timeout_while(guard, Duration::ZERO, |_| false).unwrap();
    assert!(!result.timed_out());
}

/// A very long timeout is no timeout; the notification ends it.
#[test]
fn a_notification_comes_before_the_timeout() {
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let waiter = thread::spawn({
        let shared = shared.clone();
        move || {
            let guard = shared.0.lock().unwrap();
            let (guard, result) =
                shared.1.wait_timeout_while(guard, Duration::MAX, |ready| !*ready).unwrap();
            (*guard, result.timed_out())
        }
    });
    *shared.0.lock().unwrap() = true;
    shared.1.notify_all();
    assert_eq!(waiter.join().unwrap(), (true, false));
}

/// Waiters that time out and notifications that come at the same time: every token that was put in
/// comes out once.
#[test]
fn timeouts_swallow_no_notification() {
    const TOKENS: u32 = 300;
    let shared = Arc::new((Mutex::new((0u32, 0u32)), Condvar::new()));
    let takers: Vec<_> = (0..4)
        .map(|i| {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut guard = shared.0.lock().unwrap();
                loop {
                    if guard.0 > 0 {
                        guard.0 -= 1;
                        guard.1 += 1;
                    } else if guard.1 == TOKENS {
                        shared.1.notify_all();
                        return;
                    } else if i == 0 {
                        // The patient one would hang if a notification got lost.
                        guard = shared.1.wait(guard).unwrap();
                    } else {
                        let short = Duration::from_micros(50);
                        let (again, result) = shared.1.wait_timeout(guard, short).unwrap();
                        guard = again;
                        if !result.timed_out() && guard.0 == 0 {
                            // A notification that found nothing to do is passed on.
                            shared.1.notify_one();
                        }
                    }
                }
            })
        })
        .collect();
    for _ in 0..TOKENS {
        shared.0.lock().unwrap().0 += 1;
        shared.1.notify_one();
    }
    for t in takers {
        t.join().unwrap();
    }
    assert_eq!(*shared.0.lock().unwrap(), (0, TOKENS));
}

#[test]
fn waiting_reports_poison() {
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let waiter = thread::spawn({
        let shared = shared.clone();
        move || {
            let mut guard = shared.0.lock().unwrap();
            *guard = true;
            shared.1.wait_while(guard, |_| true).is_err()
        }
    });
    let poison = || {
        // Seeing `true` under the mutex means that the waiter waits.
        while !*shared.0.lock().unwrap() {
            thread::yield_now();
        }
        let _guard = shared.0.lock().unwrap();
        shared.1.notify_one();
        panic!("on purpose");
    };
    assert!(catch_unwind(AssertUnwindSafe(poison)).is_err());
    assert!(waiter.join().unwrap());
    assert!(**shared.0.lock().unwrap_err().get_ref());
}

/// One condition variable with two mutexes: each waiter gets its own back.
#[test]
fn different_mutexes() {
    let shared = Arc::new((Mutex::new(false), Mutex::new(false), Condvar::new()));
    let threads = [0, 1].map(|i| {
        let shared = shared.clone();
        thread::spawn(move || {
            let mine = if i == 0 { &shared.0 } else { &shared.1 };
            drop(shared.2.wait_while(mine.lock().unwrap(), |ready| !*ready).unwrap());
        })
    });
    *shared.0.lock().unwrap() = true;
    *shared.1.lock().unwrap() = true;
    shared.2.notify_all();
    for t in threads {
        t.join().unwrap();
    }
    assert!(shared.0.try_lock().is_ok() && shared.1.try_lock().is_ok());
}
