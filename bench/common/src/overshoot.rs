//! How late a sleeper wakes beside threads that compute: the loops of both, and the quantiles of
//! the overshoots.

use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::compute;
use crate::outcome::Sample;

/// What a hog does: computes until `end` (of [`monotonic_ns`]) and gives nothing up.
pub fn hog_until(end: u64) {
    let mut state = 1;
    while monotonic_ns() < end {
        // Some microseconds, in which nothing but compute code runs.
        state = compute::scalar(state, 5000);
    }
    std::hint::black_box(state);
}

/// What a sleeper does: sleeps for `length` with `sleep`, again and again until `end`; once at
/// least.
pub fn sleep_until(end: u64, length: Duration, mut sleep: impl FnMut(Duration)) -> Overshoots {
    let mut overshoots = Overshoots::for_sleeps(end, length);
    let mut before = monotonic_ns();
    loop {
        sleep(length);
        let after = monotonic_ns();
        overshoots.record(length.as_nanos() as u64, after - before);
        if after >= end {
            return overshoots;
        }
        before = after;
    }
}

/// The overshoots of one sleeper.
#[derive(Clone, Debug, Default)]
pub struct Overshoots {
    late_ns: Vec<u64>,
}

/// The names of the metrics, in µs: quantiles and maximum.
pub const METRICS: [&str; 4] = ["p50_us", "p90_us", "p99_us", "max_us"];

impl Overshoots {
    /// Makes room for as many sleeps of `length` as there may be before `end`, so that recording
    /// one does not allocate.
    pub fn for_sleeps(end: u64, length: Duration) -> Self {
        let time = u128::from(end.saturating_sub(monotonic_ns()));
        let sleeps = time / length.as_nanos().max(1) + 1;
        Self { late_ns: Vec::with_capacity(sleeps as usize) }
    }

    /// Records a sleep of `asked` ns that took `took` ns.
    pub fn record(&mut self, asked: u64, took: u64) {
        self.late_ns.push(took.saturating_sub(asked));
    }

    /// The quantile `q` (0 to 1) in ns: the smallest overshoot that at least this part of all did
    /// not exceed. 0 when nothing was recorded.
    fn quantile(sorted: &[u64], q: f64) -> u64 {
        let rank = (q * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
    }

    /// The measurement, with the metrics of [`METRICS`].
    pub fn into_sample(mut self) -> Sample {
        self.late_ns.sort_unstable();
        let us = |ns: u64| ns as f64 / 1000.0;
        let sample = Sample { ops: self.late_ns.len() as u64, ..Sample::default() };
        METRICS.into_iter().zip([0.5, 0.9, 0.99, 1.0]).fold(sample, |sample, (name, q)| {
            sample.with(name, us(Self::quantile(&self.late_ns, q)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks() {
        let mut overshoots = Overshoots::default();
        for late in (1..=100).rev() {
            overshoots.record(1_000_000, 1_000_000 + late * 1000);
        }
        let sample = overshoots.into_sample();
        assert_eq!(sample.ops, 100);
        assert_eq!(METRICS.map(|name| sample.metrics[name]), [50.0, 90.0, 99.0, 100.0]);
    }

    #[test]
    fn a_sleeper_sleeps_until_the_end() {
        let length = Duration::from_micros(10);
        let end = monotonic_ns() + 1_000_000;
        let mut slept = 0;
        // A sleep that oversleeps by half the whole time: there is time for two.
        let overshoots = sleep_until(end, length, |asked| {
            assert_eq!(asked, length);
            slept += 1;
            hog_until(monotonic_ns() + 500_000);
        });
        assert!(monotonic_ns() >= end);
        assert!((1..=2).contains(&slept));
        let sample = overshoots.into_sample();
        assert_eq!(sample.ops, slept);
        assert!(sample.metrics["p50_us"] >= 490.0);
    }

    #[test]
    fn few_and_early_sleeps_are_fine() {
        let mut overshoots = Overshoots::default();
        overshoots.record(1000, 900);
        assert_eq!(overshoots.into_sample().metrics["p99_us"], 0.0);
        assert_eq!(Overshoots::default().into_sample().metrics["max_us"], 0.0);
    }
}
