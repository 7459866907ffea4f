//! Locks and what is built on them: free, contended, and with others waiting.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;
use core::sync::atomic::{AtomicBool, Ordering::*};
use quaver::sync::{Barrier, Condvar, Mutex, Once, OnceLock, RwLock, Semaphore};

pub(super) const ALL: &[Scenario] = &[
    Scenario::new("mutex", mutex),
    Scenario::new("mutex-contended", mutex_contended),
    Scenario::new("mutex-unlock-waiter", mutex_unlock_waiter),
    Scenario::new("std-mutex", std_mutex),
    Scenario::new("std-mutex-contended", std_mutex_contended),
    Scenario::plain("pthread-mutex", pthread_mutex),
    Scenario::new("condvar-wait", condvar_wait),
    Scenario::new("condvar-notify", condvar_notify),
    Scenario::new("rwlock", rwlock),
    Scenario::new("semaphore", semaphore),
    Scenario::new("barrier", barrier),
    Scenario::new("once", once),
];

fn mutex() -> u64 {
    let m = Mutex::new(1);
    step(|| {
        for i in 0..3 {
            *m.lock().unwrap() += i;
        }
        drop(m.try_lock());
    });
    m.into_inner().unwrap()
}

/// Runs `f` while another thread holds something that `hold` takes, and lets go of soon.
fn while_held(hold: impl FnOnce(&dyn Fn()) + Send, f: impl FnOnce()) {
    let (held, release) = (AtomicBool::new(false), AtomicBool::new(false));
    quaver::scope(|s| {
        s.spawn(|| {
            hold(&|| {
                held.store(true, SeqCst);
                while !release.load(SeqCst) {
                    quaver::yield_now();
                }
                quaver::yield_now();
            });
        });
        while !held.load(SeqCst) {
            quaver::yield_now();
        }
        release.store(true, SeqCst);
        f();
    });
}

fn mutex_contended() -> u64 {
    let m = Mutex::new(1u64);
    let hold = |wait: &dyn Fn()| {
        let mut value = m.lock().unwrap();
        wait();
        *value += 10;
    };
    while_held(hold, || step(|| *m.lock().unwrap() *= 3));
    m.into_inner().unwrap()
}

fn mutex_unlock_waiter() -> u64 {
    let m = Mutex::new(1u64);
    quaver::scope(|s| {
        let mut value = m.lock().unwrap();
        for i in 1..3 {
            let m = &m;
            s.spawn(move || *m.lock().unwrap() += i);
        }
        (0..4).for_each(|_| quaver::yield_now());
        step(|| {
            *value *= 100;
            drop(value);
        });
    });
    m.into_inner().unwrap()
}

fn std_mutex() -> u64 {
    let m = std::sync::Mutex::new(1);
    step(|| (0..3).for_each(|i| *m.lock().unwrap() += i));
    m.into_inner().unwrap()
}

fn std_mutex_contended() -> u64 {
    let m = std::sync::Mutex::new(1u64);
    let hold = |wait: &dyn Fn()| {
        let mut value = m.lock().unwrap();
        wait();
        *value += 10;
    };
    while_held(hold, || step(|| *m.lock().unwrap() *= 3));
    m.into_inner().unwrap()
}

fn pthread_mutex() -> u64 {
    let mut sum = 0;
    let mut mutex = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    step(|| {
        let m = &raw mut mutex;
        // SAFETY: an initialised mutex that does not move.
        unsafe {
            for i in 0..2 {
                sum = mix(sum, libc::pthread_mutex_lock(m) as u64);
                sum = mix(sum, libc::pthread_mutex_lock(m) as u64);
                sum = mix(sum, i);
                sum = mix(sum, libc::pthread_mutex_unlock(m) as u64);
                sum = mix(sum, libc::pthread_mutex_unlock(m) as u64);
            }
        }
    });
    sum
}

fn condvar_wait() -> u64 {
    let (turn, changed) = (Mutex::new(0u64), Condvar::new());
    quaver::scope(|s| {
        s.spawn(|| {
            for _ in 0..2 {
                quaver::yield_now();
                *turn.lock().unwrap() += 1;
                changed.notify_one();
            }
        });
        step(|| {
            let value = turn.lock().unwrap();
            drop(changed.wait_while(value, |v| *v < 2));
        });
    });
    turn.into_inner().unwrap()
}

fn condvar_notify() -> u64 {
    let (turn, changed) = (Mutex::new(0u64), Condvar::new());
    quaver::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let value = turn.lock().unwrap();
                *changed.wait_while(value, |v| *v == 0).unwrap() += 1;
            });
        }
        (0..4).for_each(|_| quaver::yield_now());
        step(|| {
            *turn.lock().unwrap() = 5;
            changed.notify_one();
            changed.notify_all();
        });
    });
    turn.into_inner().unwrap()
}

fn rwlock() -> u64 {
    let lock = RwLock::new(1u64);
    let hold = |wait: &dyn Fn()| {
        let value = lock.read().unwrap();
        wait();
        assert_eq!(*value, 1);
    };
    while_held(hold, || {
        step(|| {
            let both = *lock.read().unwrap() + 1;
            *lock.write().unwrap() += both;
        });
    });
    lock.into_inner().unwrap()
}

fn semaphore() -> u64 {
    let semaphore = Semaphore::new(1);
    let hold = |wait: &dyn Fn()| {
        let permit = semaphore.acquire();
        wait();
        drop(permit);
    };
    while_held(hold, || {
        step(|| {
            let permit = semaphore.acquire();
            semaphore.add_permits(1);
            drop(permit);
        });
    });
    semaphore.available_permits() as u64
}

fn barrier() -> u64 {
    let barrier = Barrier::new(2);
    quaver::scope(|s| {
        let other = s.spawn(|| (0..2).map(|_| u64::from(barrier.wait().is_leader())).sum::<u64>());
        let leader = step(|| (0..2).map(|_| u64::from(barrier.wait().is_leader())).sum::<u64>());
        leader + other.join().unwrap_or(100)
    })
}

fn once() -> u64 {
    let (once, cell) = (Once::new(), OnceLock::new());
    quaver::scope(|s| {
        s.spawn(|| {
            cell.get_or_init(|| {
                quaver::yield_now();
                7u64
            });
        });
        step(|| {
            once.call_once(quaver::yield_now);
            once.call_once(|| unreachable!("twice"));
            *cell.get_or_init(|| 7)
        })
    })
}
