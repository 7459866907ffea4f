//! How late a sleeper wakes: a sorted collection of overshoots and its quantiles.

use crate::outcome::Sample;

/// The overshoots of one sleeper.
#[derive(Clone, Debug, Default)]
pub struct Overshoots {
    late_ns: Vec<u64>,
}

/// The names of the metrics, in µs: quantiles and maximum.
pub const METRICS: [&str; 4] = ["p50_us", "p90_us", "p99_us", "max_us"];

impl Overshoots {
    /// Makes room for a number of sleeps, so that recording one does not allocate.
    pub fn with_capacity(sleeps: usize) -> Self {
        Self { late_ns: Vec::with_capacity(sleeps) }
    }

    /// Records a sleep of `asked` ns that took `took` ns.
    pub fn record(&mut self, asked: u64, took: u64) {
        self.late_ns.push(took.saturating_sub(asked));
    }

    /// The quantile `q` (0 to 1) in ns: the smallest overshoot that at least this part of all did not exceed. 0 when
    /// nothing was recorded.
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
        let mut overshoots = Overshoots::with_capacity(100);
        for late in (1..=100).rev() {
            overshoots.record(1_000_000, 1_000_000 + late * 1000);
        }
        let sample = overshoots.into_sample();
        assert_eq!(sample.ops, 100);
        assert_eq!(METRICS.map(|name| sample.metrics[name]), [50.0, 90.0, 99.0, 100.0]);
    }

    #[test]
    fn few_and_early_sleeps_are_fine() {
        let mut overshoots = Overshoots::default();
        overshoots.record(1000, 900);
        assert_eq!(overshoots.into_sample().metrics["p99_us"], 0.0);
        assert_eq!(Overshoots::default().into_sample().metrics["max_us"], 0.0);
    }
}
