//! Mutex, reader-writer lock, spin lock.

use super::{explore, explore_crowd, join};
use crate::park::SpinLock;
use crate::sync::{Mutex, RwLock};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// A counter that loom watches for unordered accesses.
struct WatchedCounter(UnsafeCell<u32>);

// SAFETY: that the locks make it so is what the models check.
unsafe impl Sync for WatchedCounter {}

impl WatchedCounter {
    fn new() -> WatchedCounter {
        WatchedCounter(UnsafeCell::new(0))
    }

    fn add(&self) {
        // SAFETY: as above.
        self.0.with_mut(|v| unsafe { *v += 1 });
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|v| unsafe { *v })
    }
}

#[test]
fn spin_lock_excludes() {
    explore_crowd(3, || {
        let lock = Arc::new(SpinLock::new(0));
        let ts = [0, 1].map(|_| {
            let lock = lock.clone();
            thread::spawn(move || *lock.lock() += 1)
        });
        *lock.lock() += 1;
        join(ts);
        assert_eq!(*lock.lock(), 3);
    });
}

#[test]
fn mutex_excludes_and_wakes_two_waiters() {
    explore_crowd(3, || {
        let shared = Arc::new((Mutex::new(()), WatchedCounter::new()));
        let ts = [0, 1].map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                let _guard = shared.0.lock().unwrap();
                shared.1.add();
            })
        });
        {
            let _guard = shared.0.lock().unwrap();
            shared.1.add();
        }
        join(ts);
        let _guard = shared.0.try_lock().unwrap();
        assert_eq!(shared.1.get(), 3);
    });
}

/// One thread locks again and again, so that waiters lose, queue again, and are handed the lock.
#[test]
fn mutex_hands_over_after_losses() {
    explore(4, || {
        let shared = Arc::new((Mutex::new(()), WatchedCounter::new()));
        let t = thread::spawn({
            let shared = shared.clone();
            move || {
                let _guard = shared.0.lock().unwrap();
                shared.1.add();
            }
        });
        for _ in 0..4 {
            let _guard = shared.0.lock().unwrap();
            shared.1.add();
        }
        t.join().unwrap();
        assert_eq!(shared.1.get(), 5);
    });
}

#[test]
fn rwlock_excludes_writers() {
    explore_crowd(3, || {
        let shared = Arc::new((RwLock::new(()), WatchedCounter::new()));
        let writer = thread::spawn({
            let shared = shared.clone();
            move || {
                let _guard = shared.0.write().unwrap();
                shared.1.add();
            }
        });
        let reader = thread::spawn({
            let shared = shared.clone();
            move || {
                let _guard = shared.0.read().unwrap();
                shared.1.get()
            }
        });
        {
            let _guard = shared.0.write().unwrap();
            shared.1.add();
        }
        let seen = reader.join().unwrap();
        writer.join().unwrap();
        assert!(seen <= 2);
        let _guard = shared.0.try_read().unwrap();
        assert_eq!(shared.1.get(), 2);
    });
}

#[test]
fn rwlock_serves_readers_and_writers_who_queue() {
    explore(3, || {
        let shared = Arc::new((RwLock::new(()), WatchedCounter::new()));
        let writer = thread::spawn({
            let shared = shared.clone();
            move || {
                for _ in 0..2 {
                    let _guard = shared.0.write().unwrap();
                    shared.1.add();
                }
            }
        });
        for _ in 0..3 {
            let _guard = shared.0.read().unwrap();
            assert!(shared.1.get() <= 2);
        }
        writer.join().unwrap();
        assert!(shared.0.try_write().is_ok());
    });
}

#[test]
fn rwlock_downgrade_keeps_writers_out() {
    explore_crowd(2, || {
        let shared = Arc::new((RwLock::new(()), WatchedCounter::new()));
        let ts = [false, true].map(|write| {
            let shared = shared.clone();
            thread::spawn(move || {
                if write {
                    let _guard = shared.0.write().unwrap();
                    shared.1.add();
                } else {
                    let _guard = shared.0.read().unwrap();
                    shared.1.get();
                }
            })
        });
        {
            let guard = shared.0.write().unwrap();
            shared.1.add();
            let before = shared.1.get();
            let _guard = crate::sync::RwLockWriteGuard::downgrade(guard);
            assert_eq!(shared.1.get(), before);
        }
        join(ts);
        assert!(shared.0.try_write().is_ok());
    });
}

/// One who gives up takes no wake-up along: the other waiter gets the lock.
#[test]
fn a_timeout_leaves_the_mutex_to_the_others() {
    explore_crowd(2, || {
        let m = Arc::new((Mutex::new(()), WatchedCounter::new()));
        let held = m.0.lock().unwrap();
        let hasty = thread::spawn({
            let m = m.clone();
            move || {
                if let Ok(_guard) = m.0.lock_timeout(Duration::ZERO) {
                    m.1.add();
                }
            }
        });
        let patient = thread::spawn({
            let m = m.clone();
            move || {
                let _guard = m.0.lock().unwrap();
                m.1.add();
            }
        });
        m.1.add();
        drop(held);
        join([hasty, patient]);
        assert!(m.0.lock().is_ok() && m.1.get() >= 2);
    });
}

/// As above, with a writer that gives up before a reader.
#[test]
fn a_timeout_leaves_the_rwlock_to_the_others() {
    explore_crowd(2, || {
        let l = Arc::new((RwLock::new(()), WatchedCounter::new()));
        let held = l.0.read().unwrap();
        let hasty = thread::spawn({
            let l = l.clone();
            move || {
                if let Ok(_guard) = l.0.write_timeout(Duration::ZERO) {
                    l.1.add();
                }
            }
        });
        let patient = thread::spawn({
            let l = l.clone();
            move || {
                let _guard = l.0.read().unwrap();
                l.1.get();
            }
        });
        drop(held);
        join([hasty, patient]);
        assert!(l.0.write().is_ok());
    });
}
