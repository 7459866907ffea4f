//! `RwLock` among kernel threads.

use quaver::sync::{RwLock, RwLockWriteGuard, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;

#[test]
fn readers_and_writers_exclude_each_other() {
    const WRITERS: usize = 3;
    const READERS: usize = 5;
    const EACH: usize = 1_000;
    let lock = Arc::new(RwLock::new((0usize, 0usize)));
    let mut threads = Vec::new();
    for w in 0..WRITERS + READERS {
        let lock = lock.clone();
        threads.push(thread::spawn(move || {
            for i in 0..EACH {
                if w < WRITERS {
                    let mut p = lock.write().unwrap();
                    p.0 += 1;
                    if i % 64 == 0 {
                        thread::yield_now();
                    }
                    p.1 += 1;
                } else {
                    let p = lock.read().unwrap();
                    assert_eq!(p.0, p.1);
                    if i % 64 == 0 {
                        thread::yield_now();
                    }
                }
            }
        }));
    }
    for t in threads {
        t.join().unwrap();
    }
    assert_eq!(*lock.read().unwrap(), (WRITERS * EACH, WRITERS * EACH));
}

#[test]
fn readers_are_inside_together() {
    const N: usize = 4;
    let shared = Arc::new((RwLock::new(()), Barrier::new(N)));
    let threads: Vec<_> = (0..N)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                let _guard = shared.0.read().unwrap();
                // Passes only if all readers get here before the first one leaves.
                shared.1.wait();
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
}

#[test]
fn try_functions_never_wait() {
    let lock = RwLock::new(0);
    {
        let _r = lock.read().unwrap();
        assert!(lock.try_read().is_ok());
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
    }
    {
        let _w = lock.write().unwrap();
        assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        assert_eq!(format!("{lock:?}"), "RwLock { data: <locked>, poisoned: false, .. }");
    }
    *lock.try_write().unwrap() = 4;
    assert_eq!(format!("{lock:?}"), "RwLock { data: 4, poisoned: false, .. }");
    assert_eq!(lock.into_inner().unwrap(), 4);
}

#[test]
fn only_writers_poison() {
    let mut lock = RwLock::new(1);
    let read = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.read().unwrap();
        panic!("on purpose");
    }));
    assert!(read.is_err() && !lock.is_poisoned());
    let write = catch_unwind(AssertUnwindSafe(|| {
        *lock.write().unwrap() = 2;
        let _guard = lock.write().unwrap();
        panic!("on purpose");
    }));
    assert!(write.is_err() && lock.is_poisoned());
    assert_eq!(**lock.read().unwrap_err().get_ref(), 2);
    assert_eq!(**lock.write().unwrap_err().get_ref(), 2);
    assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
    assert!(lock.get_mut().is_err());
    lock.clear_poison();
    assert!(lock.write().is_ok());
}

/// A downgraded writer's change is what readers see until it leaves.
#[test]
fn downgrade_lets_no_writer_in_between() {
    const ROUNDS: usize = 300;
    let lock = Arc::new(RwLock::new(0usize));
    let seen = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (lock, seen) = (lock.clone(), seen.clone());
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let mut w = lock.write().unwrap();
                    *w += 1;
                    let mine = *w;
                    let r = RwLockWriteGuard::downgrade(w);
                    thread::yield_now();
                    assert_eq!(*r, mine);
                    seen.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    assert_eq!((*lock.read().unwrap(), seen.load(SeqCst)), (4 * ROUNDS, 4 * ROUNDS));
}
