//! Locks, channels and barriers of `std`, and those of `parking_lot`.

use crate::contend::{Protected, contend};
use crate::support::{Rng, Setup, spin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Condvar, LazyLock, Mutex, Once, RwLock, mpsc};
use std::time::Duration;

#[test]
fn std_mutex() {
    for setup in Setup::all() {
        let (mutex, protected) = (Mutex::new(()), Protected::default());
        contend(setup, 100, |rng| {
            let guard = mutex.lock().unwrap();
            protected.change(rng.below(1_500));
            drop(guard);
        });
    }
}

#[test]
fn std_rwlock() {
    for setup in Setup::all() {
        let (lock, protected) = (RwLock::new(()), Protected::default());
        contend(setup, 100, |rng| {
            if rng.below(3) == 0 {
                let _guard = lock.write().unwrap();
                protected.change(rng.below(1_500));
            } else {
                let _guard = lock.read().unwrap();
                protected.look(rng.below(1_500));
            }
        });
    }
}

#[test]
fn std_condvar() {
    for setup in Setup::all() {
        setup.run(|| {
            // Threads take turns.
            let (turn, changed) = (Mutex::new(0usize), Condvar::new());
            quaver::scope(|s| {
                for i in 0..4 {
                    let (turn, changed) = (&turn, &changed);
                    s.spawn(move || {
                        for _ in 0..100 {
                            let mut now = turn.lock().unwrap();
                            while *now % 4 != i {
                                now = changed.wait(now).unwrap();
                            }
                            spin(100);
                            *now += 1;
                            changed.notify_all();
                        }
                    });
                }
            });
            assert_eq!(*turn.lock().unwrap(), 400);
        });
    }
}

#[test]
fn std_channels() {
    for setup in Setup::all() {
        for capacity in [None, Some(0), Some(3)] {
            setup.run(|| {
                const EACH: u64 = 200;
                let sum = AtomicU64::new(0);
                quaver::scope(|s| {
                    let sum = &sum;
                    let mut senders: Vec<Box<dyn Fn(u64) + Send>> = Vec::new();
                    let receiver = match capacity {
                        None => {
                            let (tx, rx) = mpsc::channel();
                            senders.extend((0..3).map(|_| {
                                let tx = tx.clone();
                                Box::new(move |v| tx.send(v).unwrap()) as _
                            }));
                            rx
                        }
                        Some(n) => {
                            let (tx, rx) = mpsc::sync_channel(n);
                            senders.extend((0..3).map(|_| {
                                let tx = tx.clone();
                                Box::new(move |v| tx.send(v).unwrap()) as _
                            }));
                            rx
                        }
                    };
                    for send in senders {
                        s.spawn(move || {
                            for v in 0..EACH {
                                send(v);
                                spin(50);
                            }
                        });
                    }
                    s.spawn(move || receiver.iter().for_each(|v| _ = sum.fetch_add(v, SeqCst)));
                });
                assert_eq!(sum.into_inner(), 3 * EACH * (EACH - 1) / 2);
            });
        }
    }
}

#[test]
fn std_once_and_barrier() {
    for setup in Setup::all() {
        setup.run(|| {
            for _ in 0..40 {
                let (once, ran) = (Once::new(), AtomicUsize::new(0));
                let lazy = LazyLock::new(|| spin(2_000) | 1);
                let barrier = Barrier::new(5);
                let leaders = AtomicUsize::new(0);
                quaver::scope(|s| {
                    for _ in 0..5 {
                        s.spawn(|| {
                            leaders.fetch_add(usize::from(barrier.wait().is_leader()), SeqCst);
                            once.call_once(|| {
                                spin(2_000);
                                ran.fetch_add(1, SeqCst);
                            });
                            assert_eq!(ran.load(SeqCst), 1);
                            assert_eq!(*lazy & 1, 1);
                        });
                    }
                });
                assert_eq!(leaders.load(SeqCst), 1);
            }
        });
    }
}

/// User threads and kernel threads wait for each other through the same objects.
#[test]
fn both_kinds_of_threads_contend() {
    for setup in Setup::all() {
        setup.run_built(setup.builder(), |rt| {
            let (mutex, protected) = (Mutex::new(()), Protected::default());
            let (to_user, from_kernel) = mpsc::sync_channel(1);
            let (to_kernel, from_user) = mpsc::sync_channel(1);
            let work = |i| {
                let mut rng = Rng(i);
                for _ in 0..150 {
                    let guard = mutex.lock().unwrap();
                    protected.change(rng.below(500));
                    drop(guard);
                    spin(rng.below(500));
                }
            };
            std::thread::scope(|s| {
                for i in 0..2 {
                    s.spawn(move || work(i));
                }
                s.spawn(move || {
                    for i in 0..200u32 {
                        to_user.send(i).unwrap();
                        assert_eq!(from_user.recv(), Ok(i + 1));
                    }
                });
                rt.run(|| {
                    quaver::scope(|s| {
                        for i in 2..5 {
                            s.spawn(move || work(i));
                        }
                        s.spawn(move || {
                            for i in from_kernel {
                                to_kernel.send(i + 1).unwrap();
                            }
                        });
                    });
                });
            });
        });
    }
}

#[test]
fn parking_lot_locks() {
    for setup in Setup::all() {
        let (mutex, protected) = (parking_lot::Mutex::new(()), Protected::default());
        contend(setup, 60, |rng| {
            let guard = mutex.lock();
            protected.change(rng.below(1_500));
            if rng.below(2) == 0 {
                parking_lot::MutexGuard::unlock_fair(guard)
            } else {
                drop(guard)
            }
        });
        let (lock, protected) = (parking_lot::RwLock::new(()), Protected::default());
        contend(setup, 60, |rng| {
            if rng.below(3) == 0 {
                let _guard = lock.write();
                protected.change(rng.below(1_500));
            } else {
                let _guard = lock.read();
                protected.look(rng.below(1_500));
            }
        });
        setup.run(|| {
            let (turn, changed) = (parking_lot::Mutex::new(0usize), parking_lot::Condvar::new());
            quaver::scope(|s| {
                for i in 0..4 {
                    let (turn, changed) = (&turn, &changed);
                    s.spawn(move || {
                        for _ in 0..60 {
                            let mut now = turn.lock();
                            while *now % 4 != i {
                                let timeout = Duration::from_secs(1000);
                                assert!(!changed.wait_for(&mut now, timeout).timed_out());
                            }
                            *now += 1;
                            changed.notify_all();
                        }
                    });
                }
            });
        });
    }
}
