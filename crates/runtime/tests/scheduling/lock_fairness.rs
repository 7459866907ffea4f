//! Nobody starves at a lock: kernel threads beside user threads, on one, two and four workers.
//!
//! A test goes on until everybody has had its turns, which takes milliseconds. Only where somebody
//! starves it goes on for so long that a busy machine cannot be the reason.

use crate::support::setup::alone;
use crate::support::spin;
use quaver::Builder;
use quaver::foreign::futex::{End, Limits};
use quaver::foreign::{condvar, lock, rwlock, semaphore};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const USERS: usize = 4;
const KERNELS: usize = 2;
const ALL: usize = USERS + KERNELS;

/// Enough turns for anybody.
const ENOUGH: u64 = 20;
/// Who has not had them after this time has starved.
const PATIENCE: Duration = Duration::from_secs(20);

/// Each thread takes turns, which it counts, until all have had enough. `turn(i)` is one of thread
/// `i`.
fn nobody_starves(turn: impl Fn(usize) + Send + Sync + 'static) {
    struct Shared<F> {
        turn: F,
        turns: [AtomicU64; ALL],
        over: AtomicBool,
        start: Instant,
    }
    let shared = Arc::new(Shared {
        turn,
        turns: [const { AtomicU64::new(0) }; ALL],
        over: AtomicBool::new(false),
        start: Instant::now(),
    });
    let body = |i: usize| {
        let s = shared.clone();
        move || {
            while !s.over.load(SeqCst) {
                (s.turn)(i);
                s.turns[i].fetch_add(1, SeqCst);
                let enough = s.turns.iter().all(|n| n.load(SeqCst) >= ENOUGH);
                if enough || s.start.elapsed() > PATIENCE {
                    s.over.store(true, SeqCst);
                }
            }
        }
    };
    let users: Vec<_> = (0..USERS).map(|i| quaver::spawn(body(i))).collect();
    let kernels: Vec<_> = (USERS..ALL).map(|i| std::thread::spawn(body(i))).collect();
    users.into_iter().for_each(|t| t.join().unwrap());
    kernels.into_iter().for_each(|t| t.join().unwrap());
    let turns = shared.turns.each_ref().map(|n| n.load(SeqCst));
    assert!(turns.iter().all(|&n| n >= ENOUGH), "user threads, then kernel threads: {turns:?}");
}

/// On runtimes of several sizes, started by a kernel thread.
fn on_all_sizes<F: Fn(usize) + Send + Sync + 'static>(make: impl Fn() -> F) {
    for workers in [1, 2, 4] {
        alone(|| {
            let rt = Builder::new().workers(workers).build().unwrap();
            nobody_starves(make());
            assert_eq!(rt.shutdown().threads, 0);
        });
    }
}

/// Holds something for a moment.
fn hold() {
    spin(400);
}

/// The same of locks with the same methods.
macro_rules! locks {
    ($($module:ident: $($path:ident)::+;)*) => {$(
        mod $module {
            use super::{hold, on_all_sizes};
            use $($path)::+ as sync;

            #[test]
            fn mutex() {
                on_all_sizes(|| {
                    let m = sync::Mutex::new(());
                    move |_| {
                        let _guard = m.lock().unwrap();
                        hold();
                    }
                });
            }

            #[test]
            fn rwlock() {
                on_all_sizes(|| {
                    let l = sync::RwLock::new(());
                    move |i| {
                        if i % 2 == 0 {
                            let _guard = l.write().unwrap();
                            hold();
                        } else {
                            let _guard = l.read().unwrap();
                            hold();
                        }
                    }
                });
            }

            /// All wait for a number to be taken, and give the next one when they have taken
            /// theirs: one is notified at a time.
            #[test]
            fn condvar() {
                on_all_sizes(|| {
                    let (m, c) = (sync::Mutex::new(1u64), sync::Condvar::new());
                    move |_| {
                        let mut free = m.lock().unwrap();
                        while *free == 0 {
                            free = c.wait(free).unwrap();
                        }
                        *free -= 1;
                        drop(free);
                        hold();
                        *m.lock().unwrap() += 1;
                        c.notify_one();
                    }
                });
            }
        }
    )*};
}

locks! {
    of_std: std::sync;
    own: quaver::sync;
}

#[test]
fn own_semaphore() {
    on_all_sizes(|| {
        let s = quaver::sync::Semaphore::new(1);
        move |_| {
            let _permit = s.acquire().unwrap();
            hold();
        }
    });
}

#[test]
fn mutex_of_c() {
    on_all_sizes(|| {
        let word = AtomicU32::new(lock::FREE);
        move |_| {
            assert_eq!(lock::lock(&word, &Limits::NONE), End::Woken);
            hold();
            lock::unlock(&word);
        }
    });
}

/// More writers than readers, as is hard for readers where writers come first.
#[test]
fn rwlock_of_c() {
    on_all_sizes(|| {
        let l = rwlock::RwLock::default();
        move |i| {
            if i % 3 == 0 {
                assert_eq!(l.read(true, &Limits::NONE), End::Woken);
            } else {
                assert_eq!(l.write(1 + i as u32, &Limits::NONE), End::Woken);
            }
            hold();
            assert!(l.unlock());
        }
    });
}

#[test]
fn semaphore_of_c() {
    on_all_sizes(|| {
        let s = semaphore::Semaphore::new(1);
        move |_| {
            assert_eq!(s.take(&Limits::NONE), End::Woken);
            hold();
            assert!(s.post());
        }
    });
}

/// As [`of_std::condvar`].
#[test]
fn condvar_of_c() {
    on_all_sizes(|| {
        let (word, c) = (AtomicU32::new(lock::FREE), condvar::Condvar::default());
        let free = AtomicU64::new(1);
        let enter = move |word: &AtomicU32| assert_eq!(lock::lock(word, &Limits::NONE), End::Woken);
        move |_| {
            enter(&word);
            while free.load(SeqCst) == 0 {
                let registered = c.register();
                lock::unlock(&word);
                assert_eq!(c.wait(registered, &Limits::NONE), End::Woken);
                enter(&word);
            }
            free.fetch_sub(1, SeqCst);
            lock::unlock(&word);
            hold();
            enter(&word);
            free.fetch_add(1, SeqCst);
            lock::unlock(&word);
            c.notify(1);
        }
    });
}

#[test]
fn mutex_of_parking_lot() {
    on_all_sizes(|| {
        let m = parking_lot::Mutex::new(());
        move |_| {
            let _guard = m.lock();
            hold();
        }
    });
}

#[test]
fn rwlock_of_parking_lot() {
    on_all_sizes(|| {
        let l = parking_lot::RwLock::new(());
        move |i| {
            if i % 2 == 0 {
                let _guard = l.write();
                hold();
            } else {
                let _guard = l.read();
                hold();
            }
        }
    });
}

/// A channel with room for one: all send and receive, so that both sides wait.
#[test]
fn channel() {
    on_all_sizes(|| {
        let (sender, receiver) = quaver::sync::mpsc::sync_channel(1);
        let receiver = quaver::sync::Mutex::new(receiver);
        move |i| {
            sender.send(i).unwrap();
            hold();
            receiver.lock().unwrap().recv().unwrap();
        }
    });
}

/// One kernel thread beside user threads that wait for notifications, which come one at a time.
#[test]
fn both_kinds_are_notified() {
    alone(|| {
        let rt = Builder::new().workers(1).build().unwrap();
        let taken = [const { AtomicU64::new(0) }; 2];
        let shared = Arc::new((Mutex::new((0u64, false)), Condvar::new(), taken));
        let waiter = |kind: usize| {
            let s = shared.clone();
            move || {
                let mut state = s.0.lock().unwrap();
                loop {
                    while state.0 == 0 && !state.1 {
                        state = s.1.wait(state).unwrap();
                    }
                    if state.1 {
                        return;
                    }
                    state.0 -= 1;
                    s.2[kind].fetch_add(1, SeqCst);
                }
            }
        };
        let users: Vec<_> = (0..4).map(|_| rt.spawn(waiter(0))).collect();
        let kernel = std::thread::spawn(waiter(1));
        let turns = || [0, 1].map(|kind| shared.2[kind].load(SeqCst));
        let start = Instant::now();
        while turns().iter().any(|&n| n < ENOUGH) && start.elapsed() < PATIENCE {
            shared.0.lock().unwrap().0 += 1;
            shared.1.notify_one();
            // One at a time: whoever takes it waits again.
            while shared.0.lock().unwrap().0 != 0 {
                std::thread::yield_now();
            }
        }
        shared.0.lock().unwrap().1 = true;
        shared.1.notify_all();
        users.into_iter().for_each(|t| t.join().unwrap());
        kernel.join().unwrap();
        assert!(turns().iter().all(|&n| n >= ENOUGH), "user threads, kernel thread: {:?}", turns());
        rt.shutdown();
    });
}
