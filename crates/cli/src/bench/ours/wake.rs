//! A sleeper beside hogs.

use std::time::Duration;

use quaver_bench_common::Sample;
use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::overshoot::{hog_until, sleep_until};

/// Sleeps for `sleep_us` µs again and again, beside `hogs` threads that compute, for `duration_ms`
/// ms.
pub fn run(hogs: u32, sleep_us: u64, duration_ms: u64) -> Sample {
    let end = monotonic_ns() + duration_ms * 1_000_000;
    quaver::scope(|scope| {
        let sleeper =
            scope.spawn(move || sleep_until(end, Duration::from_micros(sleep_us), quaver::sleep));
        for _ in 0..hogs {
            scope.spawn(move || hog_until(end));
        }
        sleeper.join().expect("nobody panics").into_sample()
    })
}
