//! Warm-up and measurement of a loop.

use std::time::{Duration, Instant};

use crate::clock::{Stopwatch, thread_cpu_ns};
use crate::outcome::Sample;
use crate::spec::Budget;

/// Measures a loop: `run(n)` must do `n` iterations, each of which counts as `ops_per_iteration`
/// operations.
///
/// The number of iterations doubles until the warm-up is over; the rate of the last of these calls
/// gives the number that fills the measurement, which is one more call of `run`.
pub fn measure(budget: Budget, ops_per_iteration: u64, mut run: impl FnMut(u64)) -> Sample {
    let iterations = warm_up(Duration::from_millis(budget.warmup_ms), &mut run)
        .iterations_in(Duration::from_millis(budget.measure_ms));
    let watch = Stopwatch::start();
    run(iterations);
    let elapsed = watch.elapsed();
    Sample::of_ops(iterations * ops_per_iteration, elapsed)
}

/// How many iterations of a loop take about `time` of the calling kernel thread; in CPU time,
/// because others may use the machine. `run(n)` must do `n` iterations.
pub fn iterations_lasting(time: Duration, mut run: impl FnMut(u64)) -> u64 {
    let mut iterations = 1;
    loop {
        let start = thread_cpu_ns();
        run(iterations);
        let took = Duration::from_nanos(thread_cpu_ns() - start);
        if took >= time / 4 {
            return Rate { iterations, took }.iterations_in(time);
        }
        iterations *= 2;
    }
}

/// How fast a loop was.
struct Rate {
    iterations: u64,
    took: Duration,
}

impl Rate {
    fn iterations_in(&self, time: Duration) -> u64 {
        let took = self.took.as_nanos().max(1);
        let iterations = u128::from(self.iterations) * time.as_nanos() / took;
        u64::try_from(iterations).unwrap_or(u64::MAX).max(1)
    }
}

fn warm_up(time: Duration, run: &mut impl FnMut(u64)) -> Rate {
    let start = Instant::now();
    let mut iterations = 1;
    loop {
        let before = Instant::now();
        run(iterations);
        let took = before.elapsed();
        // Doubling: when the warm-up is over, the last call took about half of it.
        if start.elapsed() >= time {
            return Rate { iterations, took };
        }
        iterations *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_the_last_call_only() {
        let mut calls = Vec::new();
        let budget = Budget { warmup_ms: 2, measure_ms: 4 };
        let sample = measure(budget, 3, |n| {
            calls.push(n);
            std::hint::black_box(crate::compute::scalar(1, n));
        });
        assert_eq!(sample.ops, calls.last().unwrap() * 3);
        // The warm-up doubles.
        let (_, warmup) = calls.split_last().unwrap();
        assert!(warmup.iter().enumerate().all(|(i, &n)| n == 1 << i), "{warmup:?}");
    }

    #[test]
    fn a_calibrated_loop_takes_its_time() {
        let time = Duration::from_millis(8);
        let run = |n| {
            std::hint::black_box(crate::compute::scalar(1, n));
        };
        let iterations = iterations_lasting(time, run);
        let start = thread_cpu_ns();
        run(iterations);
        // Whatever the machine does between: neither nothing nor for ever.
        let took = Duration::from_nanos(thread_cpu_ns() - start);
        assert!((time / 20..time * 20).contains(&took), "{took:?}");
    }

    #[test]
    fn a_rate_gives_the_number_that_fills_the_time() {
        let rate = Rate { iterations: 1000, took: Duration::from_millis(2) };
        assert_eq!(rate.iterations_in(Duration::from_millis(10)), 5000);
        // Never nothing, whatever the rate was.
        assert_eq!(rate.iterations_in(Duration::ZERO), 1);
        let instant = Rate { iterations: 1, took: Duration::ZERO };
        assert_eq!(instant.iterations_in(Duration::from_nanos(7)), 7);
    }
}
