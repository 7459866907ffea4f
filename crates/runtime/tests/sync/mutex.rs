//! `Mutex` among kernel threads: exclusion, poisoning, the rest of the interface.

use quaver::sync::{Mutex, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn excludes() {
    const THREADS: usize = 8;
    const EACH: usize = 2_000;
    let pair = Arc::new(Mutex::new((0usize, 0usize)));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let pair = pair.clone();
            thread::spawn(move || {
                for i in 0..EACH {
                    let mut p = pair.lock().unwrap();
                    assert_eq!(p.0, p.1);
                    p.0 += 1;
                    if i % 64 == 0 {
                        // The owner goes off its CPU now and then.
                        thread::yield_now();
                    }
                    p.1 += 1;
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    assert_eq!(*pair.lock().unwrap(), (THREADS * EACH, THREADS * EACH));
}

#[test]
fn try_lock_never_waits() {
    let m = Mutex::new(1);
    let guard = m.lock().unwrap();
    assert!(matches!(m.try_lock(), Err(TryLockError::WouldBlock)));
    drop(guard);
    *m.try_lock().unwrap() += 1;
    assert_eq!(m.into_inner().unwrap(), 2);
}

#[test]
fn a_panic_poisons_and_the_data_stays_reachable() {
    let m = Arc::new(Mutex::new(0));
    let result = thread::spawn({
        let m = m.clone();
        move || {
            let mut guard = m.lock().unwrap();
            *guard = 5;
            panic!("on purpose");
        }
    })
    .join();
    assert!(result.is_err() && m.is_poisoned());
    assert_eq!(**m.lock().unwrap_err().get_ref(), 5);
    assert!(matches!(m.try_lock(), Err(TryLockError::Poisoned(_))));
    m.clear_poison();
    assert_eq!(*m.lock().unwrap(), 5);
    assert!(!m.is_poisoned());
}

#[test]
fn a_waiter_learns_of_the_poison() {
    let m = Arc::new(Mutex::new(()));
    let guard = m.lock().unwrap();
    let waiter = thread::spawn({
        let m = m.clone();
        move || m.lock().is_err()
    });
    let result = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("on purpose");
    }));
    assert!(result.is_err());
    assert!(waiter.join().unwrap());
}

/// Locking while the thread is already panicking, in a destructor, does not poison.
#[test]
fn a_lock_in_a_destructor_of_a_panic_does_not_poison() {
    struct LocksOnDrop(Arc<Mutex<u32>>);
    impl Drop for LocksOnDrop {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let m = Arc::new(Mutex::new(0));
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _locks = LocksOnDrop(m.clone());
        panic!("on purpose");
    }));
    assert!(result.is_err());
    assert_eq!(*m.lock().unwrap(), 1);
}

#[test]
fn poison_shows_in_get_mut_and_into_inner() {
    let mut m = Mutex::new(3);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _guard = m.lock();
        panic!("on purpose");
    }));
    assert!(result.is_err());
    assert_eq!(m.get_mut().map_err(|e| *e.into_inner()), Err(3));
    assert_eq!(m.into_inner().map_err(|e| e.into_inner()), Err(3));
}

#[test]
fn holds_unsized_values_and_prints() {
    let m: &Mutex<[u8]> = &Mutex::new([1, 2, 3]);
    m.lock().unwrap()[0] = 9;
    assert_eq!(m.lock().unwrap().len(), 3);
    assert_eq!(format!("{m:?}"), "Mutex { data: [9, 2, 3], poisoned: false, .. }");
    let guard = m.lock().unwrap();
    assert_eq!(format!("{m:?}"), "Mutex { data: <locked>, poisoned: false, .. }");
    drop(guard);
    assert_eq!(format!("{}", Mutex::from("text").lock().unwrap()), "text");
    assert_eq!(*Mutex::<u8>::default().lock().unwrap(), 0);
}

#[test]
fn the_guard_drops_nothing_but_itself() {
    let counted = Arc::new(());
    let m = Mutex::new(counted.clone());
    drop(m.lock().unwrap());
    assert_eq!(Arc::strong_count(&counted), 2);
    drop(m);
    assert_eq!(Arc::strong_count(&counted), 1);
}

/// Threads that give up leave nothing behind: those that do not are all served.
#[test]
fn timeouts_lose_no_wake_up() {
    const EACH: u64 = 400;
    let m = Mutex::new(0u64);
    let sum: u64 = thread::scope(|s| {
        let threads: Vec<_> = (0..6)
            .map(|i| {
                let m = &m;
                s.spawn(move || {
                    let mut taken = 0;
                    for n in 0..EACH {
                        let guard = if i % 2 == 0 {
                            Some(m.lock().unwrap())
                        } else {
                            m.lock_timeout(Duration::from_micros(n % 7 * 10)).ok()
                        };
                        if let Some(mut guard) = guard {
                            *guard += 1;
                            taken += 1;
                            thread::yield_now();
                        }
                    }
                    taken
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(sum >= 3 * EACH);
    assert_eq!(*m.lock_timeout(Duration::ZERO).unwrap(), sum);
    let _held = m.lock().unwrap();
    assert!(matches!(m.lock_timeout(Duration::from_millis(1)), Err(TryLockError::WouldBlock)));
}
