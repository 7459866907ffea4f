//! Starting, yielding, parking, ending.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;
use core::sync::atomic::{AtomicU64, Ordering::*};

pub(super) const ALL: &[Scenario] = &[
    Scenario::new("yield", yielding),
    Scenario::new("spawn", spawn),
    Scenario::new("spawn-join", spawn_join),
    Scenario::new("spawn-many", spawn_many),
    Scenario::new("detach", detach),
    Scenario::new("scope", scope),
    Scenario::new("park", park),
    Scenario::new("unpark", unpark),
    Scenario::new("region", region),
];

fn yielding() -> u64 {
    step(|| {
        quaver::yield_now();
        quaver::yield_now();
    });
    1
}

fn spawn() -> u64 {
    let thread = step(|| quaver::spawn(|| 6 * 7));
    thread.join().unwrap_or(0)
}

fn spawn_join() -> u64 {
    step(|| quaver::spawn(|| 6 * 7).join().unwrap_or(0))
}

/// On two workers others steal some of them.
fn spawn_many() -> u64 {
    let threads = step(|| [1u64, 2, 3, 4].map(|i| quaver::spawn(move || mix(i, i))));
    threads.into_iter().fold(0, |sum, t| mix(sum, t.join().unwrap_or(0)))
}

fn detach() -> u64 {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            ENDED.fetch_add(1, SeqCst);
        }
    }
    let before = ENDED.load(SeqCst);
    step(|| {
        drop(quaver::spawn(|| Last));
        quaver::spawn_detached(|| drop(Last));
    });
    while ENDED.load(SeqCst) != before + 2 {
        quaver::yield_now();
    }
    2
}

fn scope() -> u64 {
    let mut numbers = [1u64, 2, 3, 4];
    step(|| {
        quaver::scope(|s| {
            let (left, right) = numbers.split_at_mut(2);
            s.spawn(move || left.iter_mut().for_each(|n| *n = mix(*n, 1)));
            s.spawn(move || right.iter_mut().for_each(|n| *n = mix(*n, 2)));
        });
    });
    numbers.into_iter().fold(0, mix)
}

/// Rust's own parking, which waits on a futex: the runtime parks the user thread instead.
fn park() -> u64 {
    let me = std::thread::current();
    let helper = quaver::spawn(move || {
        quaver::yield_now();
        me.unpark();
    });
    step(std::thread::park);
    helper.join().map_or(0, |()| 3)
}

fn unpark() -> u64 {
    let (tx, rx) = quaver::sync::mpsc::channel();
    let sleeper = quaver::spawn(move || {
        tx.send(std::thread::current()).map_or(0, |()| {
            std::thread::park();
            11
        })
    });
    let Ok(thread) = rx.recv() else { return 0 };
    quaver::yield_now();
    step(|| thread.unpark());
    sleeper.join().unwrap_or(0)
}

/// Nobody runs on this worker while a region lasts, and what was put off happens.
fn region() -> u64 {
    let mut sum = 0;
    step(|| {
        quaver::no_preempt(|| {
            sum = mix(sum, 1);
            let inner = quaver::NoPreempt::new();
            sum = mix(sum, u64::from(quaver::is_preemptible()));
            drop(inner);
            sum = mix(sum, 2);
        });
        sum = mix(sum, u64::from(quaver::is_preemptible()));
    });
    sum
}
