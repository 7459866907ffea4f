//! Counts stay exact while the monitor says anything, comes and goes.

use crate::futex;
use crate::mutex::Mutex;
use crate::page::{self, State};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A monitor's page that changes at random, with a seed: the counter, its life, its age.
fn disturb(state: &'static State, stop: &AtomicBool, mut seed: u64) {
    while !stop.load(Relaxed) {
        // xorshift64
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        match seed % 16 {
            0..5 => state.count.store(1, Relaxed),
            5..10 => state.count.store(0, Relaxed),
            10 => state.count.store(i64::MAX, Relaxed),
            11 => state.count.store(i64::MIN, Relaxed),
            12 => page::unset(),
            13 => state.heartbeat.store(1, Relaxed),
            14 => state.heartbeat.store(u64::MAX, Relaxed),
            _ => {
                state.heartbeat.store(futex::now(), Relaxed);
                page::set(state);
            }
        }
        std::thread::sleep(Duration::from_micros(seed >> 32 & 63));
    }
}

#[test]
fn counts_are_exact_whatever_the_monitor_says() {
    let _turn = crate::TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let state: &'static State = Box::leak(Box::new(State::new()));
    state.heartbeat.store(futex::now(), Relaxed);
    page::set(state);
    for (seed, threads) in [(1u64, 2u64), (2, 3), (3, 8), (4, 32), (5, 64)] {
        let rounds = 20_000 / threads;
        let mutex = &Mutex::new([0u64; 2]);
        let stop = &AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(move || disturb(state, stop, seed));
            let one = move |thread| {
                for round in 0..rounds {
                    let mut both = match (thread + round) % 16 {
                        0 => loop {
                            if let Some(guard) =
                                mutex.try_lock_for(Duration::from_micros(round % 200))
                            {
                                break guard;
                            }
                        },
                        _ => mutex.lock(),
                    };
                    both[0] += 1;
                    // Now and then a section that is long enough to be waited for in the kernel.
                    if round % 512 == 0 {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    both[1] += 1;
                }
            };
            let all: Vec<_> = (0..threads).map(|i| s.spawn(move || one(i))).collect();
            all.into_iter().for_each(|t| t.join().unwrap());
            stop.store(true, Relaxed);
        });
        assert_eq!(*mutex.lock(), [rounds * threads; 2]);
        assert_eq!(crate::held(), 0);
    }
    page::unset();
}
