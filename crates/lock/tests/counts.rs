//! The lock under load: counts are exact, whatever the number of threads and the way of waiting.

use quaver_lock::{Lock, Mutex, held};
use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Two words that must change together.
struct Pair(UnsafeCell<[u64; 2]>);
// SAFETY: each test uses it under a lock only.
unsafe impl Sync for Pair {}

fn hammer(threads: u64, rounds: u64) {
    let lock = Lock::new();
    let pair = Pair(UnsafeCell::new([0; 2]));
    let start = Barrier::new(threads as usize);
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                start.wait();
                for round in 0..rounds {
                    match round % 8 {
                        0 => while !lock.try_lock() {},
                        1 => while !lock.try_lock_for(Duration::from_micros(50)) {},
                        _ => lock.lock(),
                    }
                    assert_eq!(held(), 1);
                    let pair = &pair;
                    // SAFETY: under the lock.
                    let both = unsafe { &mut *pair.0.get() };
                    assert_eq!(both[0], both[1]);
                    both[0] += 1;
                    std::hint::black_box(&mut *both);
                    both[1] += 1;
                    // SAFETY: taken above.
                    unsafe { lock.unlock() };
                    assert_eq!(held(), 0);
                }
            });
        }
    });
    assert_eq!(pair.0.into_inner(), [threads * rounds; 2]);
    assert!(!lock.is_locked());
}

#[test]
fn counts_are_exact_at_all_thread_counts() {
    for threads in [1, 2, 3, 4, 8, 16, 32, 64] {
        hammer(threads, 20_000 / threads);
    }
}

#[test]
fn the_shape_of_a_mutex() {
    let mut mutex = Mutex::new(1);
    *mutex.get_mut() += 1;
    {
        let guard = mutex.lock();
        assert_eq!(format!("{guard:?}"), "2");
        assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked>, .. }");
        assert!(mutex.try_lock().is_none());
        assert!(mutex.is_locked());
    }
    assert_eq!(format!("{mutex:?}"), "Mutex { data: 2, .. }");
    assert_eq!(*mutex.try_lock().expect("free"), 2);
    assert_eq!(mutex.into_inner(), 2);
    assert_eq!(size_of::<Lock>(), 8);
    let unsized_one: &Mutex<[u8]> = &Mutex::new([1, 2]);
    assert_eq!(unsized_one.lock().len(), 2);
}

#[test]
fn a_panic_frees_the_mutex_without_poison() {
    let mutex = Mutex::new(0);
    std::thread::scope(|s| {
        let ended = s.spawn(|| {
            *mutex.lock() = 5;
            let _guard = mutex.lock();
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(ended.join().is_err());
    });
    assert_eq!(*mutex.lock(), 5);
}

#[test]
fn a_deadline_comes_in_time_and_leaves_no_trace() {
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    std::thread::scope(|s| {
        for millis in [0, 1, 20] {
            let mutex = &mutex;
            s.spawn(move || {
                let begun = Instant::now();
                assert!(mutex.try_lock_for(Duration::from_millis(millis)).is_none());
                assert!(begun.elapsed() >= Duration::from_millis(millis));
                assert_eq!(held(), 0);
            });
        }
    });
    drop(guard);
    assert!(mutex.try_lock_for(Duration::ZERO).is_some());
    assert!(mutex.try_lock_for(Duration::MAX).is_some());
}

#[test]
fn nested_locks_count_each() {
    let (a, b) = (Mutex::new(()), Mutex::new(()));
    let outer = a.lock();
    let inner = b.lock();
    assert_eq!(held(), 2);
    drop(outer);
    assert_eq!(held(), 1);
    drop(inner);
    assert_eq!(held(), 0);
}
