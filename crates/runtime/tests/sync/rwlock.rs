//! `RwLock` among kernel threads.

use quaver::sync::{RwLock, RwLockWriteGuard, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

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

/// Readers and writers that give up leave nothing behind: those that do not are all served.
#[test]
fn timeouts_lose_no_wake_up() {
    const EACH: u64 = 300;
    let lock = RwLock::new((0u64, 0u64));
    let written: u64 = thread::scope(|s| {
        let threads: Vec<_> = (0..8)
            .map(|i| {
                let lock = &lock;
                s.spawn(move || {
                    let mut written = 0;
                    for n in 0..EACH {
                        let timeout = Duration::from_micros(n % 7 * 10);
                        if i % 2 == 0 {
                            let guard = if i < 4 {
                                lock.read().ok()
                            } else {
                                lock.read_timeout(timeout).ok()
                            };
                            guard.inspect(|pair| assert_eq!(pair.0, pair.1));
                        } else {
                            let guard = if i < 4 {
                                lock.write().ok()
                            } else {
                                lock.write_timeout(timeout).ok()
                            };
                            if let Some(mut pair) = guard {
                                pair.0 += 1;
                                thread::yield_now();
                                pair.1 += 1;
                                written += 1;
                            }
                        }
                    }
                    written
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(lock.read_timeout(Duration::ZERO).unwrap().0, written);
    let held = lock.read().unwrap();
    let refused = lock.write_timeout(Duration::from_millis(1));
    assert!(matches!(refused, Err(TryLockError::WouldBlock)));
    assert!(lock.read_timeout(Duration::from_millis(1)).is_ok());
    drop((held, refused));
    let _held = lock.write().unwrap();
    assert!(lock.read_timeout(Duration::from_millis(1)).is_err());
}

/// A reader behind a writer that gives up joins those who read.
#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    let lock = RwLock::new(());
    let held = lock.read().unwrap();
    thread::scope(|s| {
        s.spawn(|| assert!(lock.write_timeout(Duration::from_millis(20)).is_err()));
        s.spawn(|| drop(lock.read().unwrap())).join().unwrap();
    });
    drop(held);
}
