//! Times in which the worker was stopped, one by one and in numbers.

use std::time::Duration;

use serde::Serialize;

/// A time in which the worker did nothing for the worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stop {
    /// When it began, or was first felt, since the start of the run.
    pub at_ns: u64,
    /// How long it lasted.
    pub ns: u64,
}

/// Stops of a worker while it served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stops {
    /// How long the worker was watched: while requests ran.
    pub watched_ns: u64,
    /// Each, in the order of time within a run.
    pub all: Vec<Stop>,
}

/// Stops in numbers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Stops in a second of serving.
    pub per_second: f64,
    /// The share of that time, in percent.
    pub percent: f64,
    /// The longest, in microseconds.
    pub longest_us: f64,
}

impl Stops {
    /// Both runs'.
    pub fn and(mut self, other: &Stops) -> Stops {
        self.watched_ns += other.watched_ns;
        self.all.extend(&other.all);
        self
    }

    /// The time in which the worker was stopped by stops that began in that span of a run.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let first = self.all.partition_point(|stop| stop.at_ns < from_ns);
        self.all[first..].iter().take_while(|s| s.at_ns < to_ns).map(|stop| stop.ns).sum()
    }

    /// The share of the time that longer stops than this took, in percent.
    pub fn percent_beyond(&self, least: Duration) -> f64 {
        let long = self.all.iter().map(|stop| stop.ns).filter(|&ns| ns > least.as_nanos() as u64);
        100.0 * long.sum::<u64>() as f64 / self.watched_ns.max(1) as f64
    }

    /// In numbers.
    pub fn summary(&self) -> Summary {
        let seconds = (self.watched_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
        let all = self.all.iter().map(|stop| stop.ns);
        Summary {
            per_second: self.all.len() as f64 / seconds,
            percent: all.clone().sum::<u64>() as f64 / seconds / 1e7,
            longest_us: all.max().map_or(0.0, |ns| ns as f64 / 1e3),
        }
    }
}
