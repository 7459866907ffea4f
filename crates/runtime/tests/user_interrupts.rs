//! Preemption by emulated user interrupts: the entry, the frame and the way back are those of
//! hardware.

mod support;

use quaver::{Builder, Clock, Notification};
use std::time::Duration;
use support::on_runtime;

fn builder(clock: Clock, workers: usize) -> Builder {
    Builder::new()
        .notification(Notification::EmulatedUserInterrupt)
        .clock(clock)
        .workers(workers)
        .pin(clock == Clock::DelegatedTimer)
        .quantum(Some(Duration::from_micros(200)))
}

/// Vector and general registers at work.
fn compute(seed: u64) -> u64 {
    let mut x = [1.0f64 + seed as f64; 16];
    let mut hash = seed | 1;
    for i in 0..2_000u64 {
        x.iter_mut().enumerate().for_each(|(k, v)| *v = *v * 1.000_1 + k as f64 / 3.0);
        hash = hash.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i;
    }
    x.iter().fold(hash, |a, v| a.rotate_left(9) ^ v.to_bits())
}

#[test]
fn results_are_those_of_an_undisturbed_run() {
    let expected: Vec<u64> = (0..4).map(compute).collect();
    for (clock, workers) in
        [(Clock::TimerThread, 1), (Clock::TimerThread, 2), (Clock::DelegatedTimer, 1)]
    {
        on_runtime(builder(clock, workers), || {
            let stats = || quaver::Handle::current().unwrap().stats();
            quaver::scope(|s| {
                for i in 0..4usize {
                    let expected = &expected;
                    s.spawn(move || {
                        while stats().preempt_useful < 200 {
                            assert_eq!(compute(i as u64), expected[i], "{i}");
                        }
                    });
                }
            });
            assert!(stats().preempt_by_user_interrupt >= 100, "{:?}", stats());
        });
    }
}
