//! Percentiles of values some of which are not known yet.
//!
//! The latency of a request that has not completed is unknown, but not nothing: leaving it out
//! would make a server look better the fewer requests it completes. So it is *ranked above every
//! completed request*. A percentile whose rank falls among the completed is exact under that
//! ranking and at least as large as the true one; a percentile whose rank falls among the others is
//! unknown, marked `at_least`, and given as the age of the request at that rank, or the largest
//! completed value if that is more. Requests that did not complete can therefore only raise
//! percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Values are told apart to three decimal digits.
const DIGITS: u8 = 3;

/// Leaves the histogram room to double; 146 years as nanoseconds.
const LARGEST: u64 = 1 << 62;

/// A figure that is exact, or a bound because requests are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured<T> {
    /// The value.
    pub value: T,
    /// The true value is unknown, because requests did not complete, and assumed to be no less than
    /// this.
    pub at_least: bool,
}

impl<T: PartialOrd> Measured<T> {
    /// Is it known to be no more than `limit`?
    pub fn is_within(&self, limit: T) -> bool {
        !self.at_least && self.value <= limit
    }
}

/// A percentile of a [`Distribution`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Percentile {
    /// The median.
    P50,
    /// The 90th.
    P90,
    /// The 99th.
    P99,
    /// The 99.9th.
    P999,
    /// The largest value.
    Max,
}

/// How a quantity is spread over requests: over all that were offered, completed or not.
///
/// A percentile is the value at rank ⌈share × count⌉ (nearest rank), to three decimal digits;
/// minimum, maximum and mean are exact. Requests that did not complete rank above all others, by
/// their age when the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution<T> {
    /// How many requests.
    pub count: u64,
    /// The smallest value.
    pub min: Measured<T>,
    /// The mean.
    pub mean: Measured<f64>,
    /// The median.
    pub p50: Measured<T>,
    /// The 90th percentile.
    pub p90: Measured<T>,
    /// The 99th percentile.
    pub p99: Measured<T>,
    /// The 99.9th percentile.
    pub p999: Measured<T>,
    /// The largest value.
    pub max: Measured<T>,
}

impl<T: Copy> Distribution<T> {
    /// The value of a percentile.
    pub fn percentile(&self, percentile: Percentile) -> Measured<T> {
        match percentile {
            Percentile::P50 => self.p50,
            Percentile::P90 => self.p90,
            Percentile::P99 => self.p99,
            Percentile::P999 => self.p999,
            Percentile::Max => self.max,
        }
    }
}

impl Distribution<u64> {
    /// The same distribution in a unit of which the integers count `per_unit`th parts.
    pub(crate) fn divided(&self, per_unit: f64) -> Distribution<f64> {
        let one =
            |m: Measured<u64>| Measured { value: m.value as f64 / per_unit, at_least: m.at_least };
        Distribution {
            count: self.count,
            min: one(self.min),
            mean: Measured { value: self.mean.value / per_unit, at_least: self.mean.at_least },
            p50: one(self.p50),
            p90: one(self.p90),
            p99: one(self.p99),
            p999: one(self.p999),
            max: one(self.max),
        }
    }
}

/// Collects values and bounds for a [`Distribution`].
pub(crate) struct Values {
    known: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
    /// Lower bounds of the values that are not known.
    bounds: Vec<u64>,
}

impl Values {
    pub(crate) fn new() -> Self {
        Self { known: empty_histogram(), min: u64::MAX, max: 0, sum: 0, bounds: Vec::new() }
    }

    /// Room for an hour in nanoseconds, so that recording less than that never allocates.
    pub(crate) fn preallocated() -> Self {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let mut values = Self::new();
        // Recording the largest value makes room for it; it is taken out again.
        record(&mut values.known, HOUR_NS);
        values.known.reset();
        values
    }

    pub(crate) fn record(&mut self, value: u64) {
        record(&mut self.known, value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value);
    }

    pub(crate) fn record_bound(&mut self, bound: u64) {
        self.bounds.push(bound);
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.known
    }

    /// `None` when there are no values.
    pub(crate) fn distribution(&self) -> Option<Distribution<u64>> {
        let mut bounds = self.bounds.clone();
        bounds.sort_unstable();
        let count = self.known.len() + bounds.len() as u64;
        if count == 0 {
            return None;
        }
        let sum = bounds.iter().fold(self.sum, |sum, &bound| sum + u128::from(bound));
        let mean = Measured { value: sum as f64 / count as f64, at_least: !bounds.is_empty() };
        let percentile = |permille| self.at_rank(rank(count, permille), &bounds);
        Some(Distribution {
            count,
            min: self.at_rank(1, &bounds),
            mean,
            p50: percentile(500),
            p90: percentile(900),
            p99: percentile(990),
            p999: percentile(999),
            max: self.at_rank(count, &bounds),
        })
    }

    /// The value of rank 1, 2... among known values and, after them, the sorted bounds.
    fn at_rank(&self, rank: u64, bounds: &[u64]) -> Measured<u64> {
        let known = self.known.len();
        if rank > known {
            let bound = bounds[(rank - known - 1) as usize];
            return Measured { value: bound.max(self.max), at_least: true };
        }
        let value = match rank {
            1 => self.min,
            _ if rank == known => self.max,
            _ => self.known_at_rank(rank),
        };
        Measured { value, at_least: false }
    }

    fn known_at_rank(&self, rank: u64) -> u64 {
        let mut below = 0;
        for step in self.known.iter_recorded() {
            below += step.count_since_last_iteration();
            if below >= rank {
                // A bucket is named by its upper end, which the largest value need not reach.
                return step.value_iterated_to().clamp(self.min, self.max);
            }
        }
        self.max
    }
}

/// ⌈count × permille / 1000⌉, at least 1.
fn rank(count: u64, permille: u64) -> u64 {
    let rank = (u128::from(count) * u128::from(permille)).div_ceil(1000);
    (rank as u64).max(1)
}

/// A histogram that grows as needed.
pub(crate) fn empty_histogram() -> Histogram<u64> {
    // Fails only for more than five digits.
    Histogram::new(DIGITS).expect("three digits are allowed")
}

/// Records a value in a histogram that grows as needed.
pub(crate) fn record(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value.min(LARGEST)).expect("a growing histogram takes every value up to 2^62");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: u64) -> Measured<u64> {
        Measured { value, at_least: false }
    }

    fn at_least(value: u64) -> Measured<u64> {
        Measured { value, at_least: true }
    }

    #[test]
    fn percentiles_of_known_values_are_nearest_ranks() {
        let mut values = Values::new();
        (1..=1_000).rev().for_each(|v| values.record(v));
        let got = values.distribution().unwrap();
        assert_eq!(
            (got.min, got.p50, got.p90, got.p99, got.p999, got.max),
            (known(1), known(500), known(900), known(990), known(999), known(1_000))
        );
        assert_eq!((got.count, got.mean.value, got.mean.at_least), (1_000, 500.5, false));

        let mut values = Values::new();
        values.record(1_000_003);
        let got = values.distribution().unwrap();
        assert_eq!(
            (got.min, got.p50, got.max),
            (known(1_000_003), known(1_000_003), known(1_000_003))
        );
        assert!(Values::new().distribution().is_none());
    }

    #[test]
    fn what_is_unknown_ranks_last_and_never_helps() {
        let mut values = Values::new();
        (1..=98).for_each(|v| values.record(v));
        // Both bounds are below what others took; neither may lower a percentile.
        values.record_bound(50);
        values.record_bound(5);
        let got = values.distribution().unwrap();
        assert_eq!((got.p50, got.p90), (known(50), known(90)));
        assert_eq!((got.p99, got.max), (at_least(98), at_least(98)));
        assert!(got.mean.at_least);

        let mut values = Values::new();
        (1..=98).for_each(|v| values.record(v));
        values.record_bound(2_000);
        values.record_bound(1_000);
        let got = values.distribution().unwrap();
        assert_eq!((got.p99, got.p999), (at_least(1_000), at_least(2_000)));
        assert!(!got.p99.is_within(u64::MAX) && got.p90.is_within(90) && !got.p90.is_within(89));

        let mut values = Values::new();
        values.record_bound(7);
        let got = values.distribution().unwrap();
        assert_eq!((got.min, got.max), (at_least(7), at_least(7)));
    }

    #[test]
    fn every_value_can_be_recorded() {
        let mut values = Values::preallocated();
        assert!(values.distribution().is_none());
        values.record(0);
        values.record(u64::MAX);
        let got = values.distribution().unwrap();
        assert_eq!((got.min, got.max), (known(0), known(u64::MAX)));
    }
}
