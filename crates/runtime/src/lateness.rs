//! How late preemptions come that had to be put off.

use crate::tsc::{self, Ticks};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use quaver_sched::steps;
use std::time::Duration;

/// Below this many nanoseconds all times are one.
const LEAST: u64 = 4;
const FIRST: usize = steps::of(LEAST);
/// Up to 2^38 ns, more than a minute.
const BUCKETS: usize = steps::of(1 << 38) - FIRST;

/// Where a time is counted.
fn bucket(ns: u64) -> usize {
    (steps::of(ns.max(LEAST)) - FIRST).min(BUCKETS - 1)
}

/// The longest time in a bucket.
fn upper(bucket: usize) -> u64 {
    steps::end(FIRST + bucket)
}

/// Counts by time, of one slot. Written only where a preemption was put off first.
pub(crate) struct Counts([AtomicU64; BUCKETS]);

impl Counts {
    pub(crate) const fn new() -> Counts {
        Counts([const { AtomicU64::new(0) }; BUCKETS])
    }

    /// From any thread.
    #[cold]
    pub(crate) fn record(&self, late: Ticks) {
        self.0[bucket(tsc::to_nanos(late))].fetch_add(1, Relaxed);
    }
}

/// How late preemptions came that were put off first: inside a region, a section of the runtime, or
/// code that may hold a lock of the C library. Counted from the first request that could not be
/// taken to the switch; the time between the end of the quantum and that request is not part of it.
///
/// A thread that stopped by itself before the preemption could be taken is not counted, so there
/// are fewer than [`Stats::preempt_deferred`](crate::Stats::preempt_deferred), which counts every
/// request that was put off, also the same one again. Times are kept in steps of a quarter of their
/// power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    counts: Vec<u64>,
}

impl Lateness {
    pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Counts>) -> Lateness {
        let mut counts = vec![0; BUCKETS];
        for slot in all {
            for (sum, n) in counts.iter_mut().zip(&slot.0) {
                *sum += n.load(Relaxed);
            }
        }
        Lateness { counts }
    }

    /// How many preemptions came late.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The lateness that a share `q` (0 to 1) of them did not exceed, rounded up to the next step;
    /// zero if there are none.
    pub fn quantile(&self, q: f64) -> Duration {
        let wanted = (q.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= wanted && seen > 0 {
                return Duration::from_nanos(upper(bucket));
            }
        }
        Duration::ZERO
    }

    /// What was counted between `earlier` and this.
    #[must_use]
    pub fn since(&self, earlier: &Lateness) -> Lateness {
        let pairs = self.counts.iter().zip(&earlier.counts);
        Lateness { counts: pairs.map(|(now, then)| now.wrapping_sub(*then)).collect() }
    }

    /// Steps in which there are any: the longest time of the step, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (Duration, u64)> {
        let steps = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        steps.map(|(bucket, n)| (Duration::from_nanos(upper(bucket)), *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_their_buckets() {
        let mut last = 0;
        for ns in (0..5000).chain([1 << 20, 1 << 35, u64::MAX]) {
            let b = bucket(ns);
            assert!(b >= last && b < BUCKETS);
            last = b;
            assert!(ns < upper(b) || b == BUCKETS - 1, "{ns} in {b}");
            assert!(b == 0 || ns >= upper(b - 1), "{ns} in {b}");
        }
        assert!((upper(bucket(1000)) as f64) < 1000.0 * 1.26);
    }

    #[test]
    fn quantiles() {
        tsc::init();
        let (a, b) = (Counts::new(), Counts::new());
        let none = Lateness::sum([&a].into_iter());
        assert_eq!((none.count(), none.quantile(0.5)), (0, Duration::ZERO));
        for us in 1..=90 {
            a.record(tsc::from_duration(Duration::from_micros(us)));
        }
        for _ in 0..10 {
            b.record(tsc::from_duration(Duration::from_millis(3)));
        }
        let all = Lateness::sum([&a, &b].into_iter());
        assert_eq!(all.count(), 100);
        let us = |q| all.quantile(q).as_micros();
        assert!((50..64).contains(&us(0.5)), "{}", us(0.5));
        assert!((90..113).contains(&us(0.9)), "{}", us(0.9));
        assert!((3000..3800).contains(&us(0.91)) && us(1.0) == us(0.91), "{}", us(0.91));
        assert_eq!(all.since(&none), all);
        assert_eq!(all.since(&all).iter().count(), 0);
        assert_eq!(all.iter().map(|(_, n)| n).sum::<u64>(), 100);
    }
}
