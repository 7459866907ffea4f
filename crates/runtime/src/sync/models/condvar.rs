//! Condition variables: notification, timeout, and the way to the mutex.

use super::{explore, explore_crowd, join};
use crate::sync::{Condvar, Mutex};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

type Shared = Arc<(Mutex<u32>, Condvar)>;

fn shared() -> Shared {
    Arc::new((Mutex::new(0), Condvar::new()))
}

fn wait_for(shared: &Shared, at_least: u32) {
    let guard = shared.0.lock().unwrap();
    drop(shared.1.wait_while(guard, |v| *v < at_least).unwrap());
}

#[test]
fn notifying_under_the_mutex() {
    explore(6, || {
        let s = shared();
        let t = thread::spawn({
            let s = s.clone();
            move || wait_for(&s, 1)
        });
        {
            let mut guard = s.0.lock().unwrap();
            *guard = 1;
            s.1.notify_one();
        }
        t.join().unwrap();
        assert!(s.0.try_lock().is_ok());
    });
}

#[test]
fn notifying_without_the_mutex() {
    explore(6, || {
        let s = shared();
        let t = thread::spawn({
            let s = s.clone();
            move || wait_for(&s, 1)
        });
        *s.0.lock().unwrap() = 1;
        s.1.notify_one();
        t.join().unwrap();
        assert!(s.0.try_lock().is_ok());
    });
}

#[test]
fn notifying_all() {
    explore_crowd(3, || {
        let s = shared();
        let ts = [0, 1].map(|_| {
            let s = s.clone();
            thread::spawn(move || wait_for(&s, 1))
        });
        *s.0.lock().unwrap() = 1;
        s.1.notify_all();
        join(ts);
        assert!(s.0.try_lock().is_ok());
    });
}

/// A notification that meets a timeout is either taken by the waiter or left for the other one.
#[test]
fn a_timeout_does_not_swallow_a_notification() {
    explore_crowd(3, || {
        let s = shared();
        let patient = thread::spawn({
            let s = s.clone();
            move || {
                let guard = s.0.lock().unwrap();
                let mut guard = s.1.wait_while(guard, |v| *v == 0).unwrap();
                *guard -= 1;
            }
        });
        let hasty = thread::spawn({
            let s = s.clone();
            move || {
                let guard = s.0.lock().unwrap();
                let (guard, result) = s.1.wait_timeout(guard, Duration::ZERO).unwrap();
                drop(guard);
                if !result.timed_out() {
                    // It took the notification, so it owes one.
                    s.1.notify_one();
                }
            }
        });
        {
            let mut guard = s.0.lock().unwrap();
            *guard += 1;
            s.1.notify_one();
        }
        patient.join().unwrap();
        hasty.join().unwrap();
        assert_eq!(*s.0.try_lock().unwrap(), 0);
    });
}

/// Two threads take turns: every hand-off is a notification followed by a wait.
#[test]
fn hand_off() {
    explore(3, || {
        let s = shared();
        let turn = |s: &Shared, mine: u32| {
            for _ in 0..2 {
                let guard = s.0.lock().unwrap();
                let mut guard = s.1.wait_while(guard, |v| *v % 2 != mine).unwrap();
                *guard += 1;
                s.1.notify_one();
            }
        };
        let t = thread::spawn({
            let s = s.clone();
            move || turn(&s, 1)
        });
        turn(&s, 0);
        t.join().unwrap();
        assert_eq!(*s.0.try_lock().unwrap(), 4);
    });
}
