//! The C library's locks, and its threads' ends.

use crate::contend::Protected;
use crate::support::{Rng, Setup, spin, stats, until};
use std::cell::UnsafeCell;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Something of the C library that is shared between threads.
struct Shared<T>(Box<UnsafeCell<T>>);

// SAFETY: what is put in here is made to be shared.
unsafe impl<T> Sync for Shared<T> {}

// SAFETY: it is not moved.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    fn new(value: T) -> Shared<T> {
        Shared(Box::new(UnsafeCell::new(value)))
    }

    fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// glibc's locks wait in system calls that nobody can intercept: those who wait are handed over.
#[test]
fn pthread_mutexes() {
    for setup in Setup::all() {
        let mutex = Shared::new(libc::PTHREAD_MUTEX_INITIALIZER);
        let protected = Protected::default();
        let goal = setup.preemptions(60);
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4 {
                    let (mutex, protected) = (&mutex, &protected);
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        let enough = || stats().preempt_useful >= goal && stats().handovers > 2;
                        until(enough, |_| {
                            // SAFETY: an initialised mutex, unlocked by its owner.
                            unsafe {
                                assert_eq!(libc::pthread_mutex_lock(mutex.get()), 0);
                                protected.change(rng.below(1_500));
                                assert_eq!(libc::pthread_mutex_unlock(mutex.get()), 0);
                            }
                        });
                    });
                }
            });
        });
    }
}

#[test]
fn pthread_condition_variables_and_semaphores() {
    for setup in Setup::all() {
        let mutex = Shared::new(libc::PTHREAD_MUTEX_INITIALIZER);
        let condvar = Shared::new(libc::PTHREAD_COND_INITIALIZER);
        // SAFETY: initialised before use.
        let semaphore = unsafe {
            let s = Shared::new(std::mem::zeroed::<libc::sem_t>());
            assert_eq!(libc::sem_init(s.get(), 0, 0), 0);
            s
        };
        setup.run(|| {
            let turn = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let (mutex, condvar, semaphore, turn) = (&mutex, &condvar, &semaphore, &turn);
                    s.spawn(move || {
                        for _ in 0..30 {
                            // SAFETY: initialised objects; the mutex is held where it must be.
                            unsafe {
                                assert_eq!(libc::pthread_mutex_lock(mutex.get()), 0);
                                while turn.load(SeqCst) % 3 != i {
                                    assert_eq!(
                                        libc::pthread_cond_wait(condvar.get(), mutex.get()),
                                        0
                                    );
                                }
                                spin(200);
                                turn.fetch_add(1, SeqCst);
                                assert_eq!(libc::pthread_cond_broadcast(condvar.get()), 0);
                                assert_eq!(libc::pthread_mutex_unlock(mutex.get()), 0);
                                assert_eq!(libc::sem_post(semaphore.get()), 0);
                            }
                        }
                    });
                }
                s.spawn(|| {
                    for _ in 0..90 {
                        // SAFETY: an initialised semaphore.
                        while unsafe { libc::sem_wait(semaphore.get()) } != 0 {
                            let e = std::io::Error::last_os_error();
                            assert_eq!(e.kind(), ErrorKind::Interrupted);
                        }
                    }
                });
            });
            assert_eq!(turn.load(SeqCst), 90);
        });
    }
}

#[test]
fn joining_kernel_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            let others = AtomicU64::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let others = &others;
                    s.spawn(move || {
                        for k in 0..5u64 {
                            let t = std::thread::spawn(move || {
                                std::thread::sleep(Duration::from_millis(2));
                                i * k
                            });
                            assert_eq!(t.join().unwrap(), i * k);
                            others.fetch_add(1, SeqCst);
                        }
                    });
                }
                until(|| others.load(SeqCst) == 15, |_| _ = spin(1_000));
            });
        });
    }
}
