//! The standard library's state of a thread.

use crate::support::{Rng, Setup, identity, spin, until_preempted, until_preempted_again};
use std::collections::HashMap;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What `std` says of the calling thread is different for each thread and does not change when it
/// is moved.
#[test]
fn std_knows_each_thread() {
    for setup in Setup::all() {
        setup.run(|| {
            identity::each_thread_has_its_own(10, setup.preemptions(10));
            let nameless = || std::thread::current().name().is_none();
            assert!(quaver::spawn(nameless).join().unwrap());
        });
    }
}

/// `std::thread::park` and `unpark`, whose token is in a thread-local.
#[test]
fn std_parks_user_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            let first = Arc::new(Mutex::new(None));
            let (tx, rx) = std::sync::mpsc::channel();
            let parked = first.clone();
            let t = quaver::spawn(move || {
                *parked.lock().unwrap() = Some(std::thread::current());
                tx.send(()).unwrap();
                for i in 0..200u32 {
                    std::thread::park();
                    tx.send(()).unwrap();
                    black_box(i);
                }
            });
            rx.recv().unwrap();
            let other = first.lock().unwrap().take().unwrap();
            for _ in 0..200 {
                other.unpark();
                rx.recv().unwrap();
            }
            t.join().unwrap();
        });
    }
}

/// A thread that is preempted while it unwinds does not make others panic.
#[test]
fn panics_are_private() {
    struct Slow<'a>(&'a AtomicUsize);
    impl Drop for Slow<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            self.0.fetch_add(1, SeqCst);
            until_preempted_again(3, |_| {
                spin(200);
                assert!(std::thread::panicking());
            });
            self.0.fetch_sub(1, SeqCst);
        }
    }
    for setup in Setup::all() {
        setup.run(|| {
            let unwinding = AtomicUsize::new(0);
            let done = AtomicUsize::new(0);
            quaver::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        for _ in 0..10 {
                            let result = catch_unwind(AssertUnwindSafe(|| {
                                let _slow = Slow(&unwinding);
                                resume_unwind(Box::new(1u8));
                            }));
                            assert!(result.is_err() && !std::thread::panicking());
                        }
                        done.fetch_add(1, SeqCst);
                    });
                    s.spawn(|| {
                        let mutex = Mutex::new(());
                        let mut beside = 0;
                        while done.load(SeqCst) < 3 {
                            assert!(!std::thread::panicking());
                            let guard = mutex.lock().unwrap();
                            beside += usize::from(unwinding.load(SeqCst) > 0);
                            spin(200);
                            // Would poison the mutex if this thread were thought to panic.
                            drop(guard);
                        }
                        assert!(beside > 0, "never beside a thread that unwinds");
                    });
                }
            });
        });
    }
}

/// Hash maps' random keys, formatting, and whatever else of `std` is thread-local.
#[test]
fn std_is_usable() {
    for setup in Setup::all() {
        setup.run(|| {
            let stop = AtomicBool::new(false);
            quaver::scope(|s| {
                for i in 0..3u64 {
                    let stop = &stop;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        until_preempted(setup.preemptions(60), |step| {
                            let mut map = HashMap::new();
                            for _ in 0..20 {
                                let key = rng.below(10);
                                *map.entry(format!("{key}")).or_insert(0u64) += step;
                            }
                            assert_eq!(map.values().sum::<u64>(), 20 * step);
                        });
                        stop.store(true, SeqCst);
                    });
                }
            });
        });
    }
}
