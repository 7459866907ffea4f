//! Waiting work gets its turn beside busy threads.

use crate::support::{Rng, Setup, full, spin, stats};
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Spins, without calling anything, until `done`.
///
/// # Panics
///
/// After minutes.
fn spin_until(done: impl Fn() -> bool, what: &str) {
    for _ in 0..20_000_000_000u64 / if cfg!(debug_assertions) { 10 } else { 1 } {
        if done() {
            return;
        }
        spin_loop();
    }
    panic!("{what}: {:?}", stats());
}

#[test]
fn busy_threads_share_one_worker() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            const SHARE: u64 = 2_000;
            let done: [AtomicU64; 4] = Default::default();
            quaver::scope(|s| {
                for i in 0..4 {
                    let done = &done;
                    s.spawn(move || {
                        let enough = || {
                            spin(20);
                            done[i].fetch_add(1, SeqCst);
                            done.iter().all(|d| d.load(SeqCst) >= SHARE)
                        };
                        spin_until(enough, "some threads get nothing");
                    });
                }
            });
        });
    }
}

/// Nobody waits in vain beside a busy thread, whoever makes the other runnable, whenever.
#[test]
fn work_that_comes_later_gets_its_turn() {
    for setup in Setup::clocks(1) {
        setup.run_built(setup.builder(), |rt| {
            let mut rng = Rng(11);
            for round in 0..setup.preemptions(400) {
                let flag = Arc::new(AtomicBool::new(false));
                let (seen, set) = (flag.clone(), flag.clone());
                let delay = rng.below(if round % 2 == 0 { 50 } else { 20_000 });
                let busy = move || spin_until(|| seen.load(SeqCst), "never preempted");
                match round % 4 {
                    // From a kernel thread, both.
                    0 | 1 => {
                        let busy = rt.spawn(busy);
                        spin(delay);
                        rt.spawn(move || set.store(true, SeqCst)).join().unwrap();
                        busy.join().unwrap();
                    }
                    // By the busy thread itself.
                    2 => rt.run(move || {
                        spin(delay);
                        quaver::spawn(move || set.store(true, SeqCst));
                        busy();
                    }),
                    // A kernel thread wakes a user thread that waits.
                    _ => {
                        let (tx, rx) = std::sync::mpsc::channel();
                        let waiter = rt.spawn(move || {
                            rx.recv().unwrap();
                            set.store(true, SeqCst);
                        });
                        let busy = rt.spawn(busy);
                        spin(delay);
                        tx.send(()).unwrap();
                        waiter.join().unwrap();
                        busy.join().unwrap();
                    }
                }
            }
        });
    }
}

/// The worker has just woken up, or is about to sleep, when a busy thread and another come
/// together.
#[test]
fn work_that_comes_together_gets_its_turn() {
    for (setup, idle_spin) in Setup::clocks(1).into_iter().flat_map(|s| [(s, 0), (s, 20)]) {
        let builder = setup.builder().idle_spin(Duration::from_micros(idle_spin));
        setup.run_built(builder, |rt| {
            let mut rng = Rng(12);
            for _ in 0..setup.preemptions(if full() { 20_000 } else { 500 }) {
                let flag = Arc::new(AtomicBool::new(false));
                let (seen, set) = (flag.clone(), flag.clone());
                let busy = rt.spawn(move || spin_until(|| seen.load(SeqCst), "never preempted"));
                spin(rng.below(400));
                rt.handle().spawn_detached(move || set.store(true, SeqCst)).unwrap();
                busy.join().unwrap();
            }
        });
    }
}

/// A sleeper comes back although a busy thread never makes a call.
#[test]
fn sleepers_come_back_beside_busy_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            let done = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let done = &done;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        for _ in 0..setup.preemptions(50) {
                            quaver::sleep(Duration::from_nanos(rng.below(300_000)));
                        }
                        done.fetch_add(1, SeqCst);
                    });
                }
                for _ in 0..2 {
                    s.spawn(|| spin_until(|| done.load(SeqCst) == 3, "sleepers do not come back"));
                }
            });
        });
    }
}
