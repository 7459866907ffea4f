//! What came of a run.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Percentiles of a time or of a ratio.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Latency {
    /// The mean, exact.
    pub mean: f64,
    /// The standard error of the mean by batch means, which sees that values near each other are
    /// alike; `None` for too few values. Too small where a disturbance of the queue outlasts a
    /// sixteenth of the run.
    pub standard_error: Option<f64>,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.5th percentile.
    pub p99_5: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// 99.99th percentile.
    pub p99_99: f64,
    /// The largest.
    pub max: f64,
}

/// Values of one kind: a histogram to three digits, and exact sums.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    histogram: Histogram<u64>,
    sum: f64,
    batches: Batches,
    scale: f64,
}

impl Recorder {
    /// `scale`: what a recorded value is divided by.
    pub(crate) fn new(scale: f64) -> Self {
        let mut histogram = Histogram::new(3).expect("three digits are possible");
        histogram.auto(true);
        Recorder { histogram, sum: 0.0, batches: Batches::default(), scale }
    }

    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.histogram.record(value).expect("it grows as needed");
        let value = value as f64;
        self.sum += value;
        self.batches.add(value);
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(crate) fn latency(&self) -> Option<Latency> {
        let count = self.histogram.len();
        if count == 0 {
            return None;
        }
        let at = |quantile| self.histogram.value_at_quantile(quantile) as f64 / self.scale;
        let mean = self.sum / count as f64;
        Some(Latency {
            mean: mean / self.scale,
            standard_error: self.batches.standard_error().map(|error| error / self.scale),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_5: at(0.995),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: self.histogram.max() as f64 / self.scale,
        })
    }
}

/// Sums of consecutive values, of equally many each: between 16 and 32 batches, however many values
/// there are.
#[derive(Clone, Debug)]
struct Batches {
    full: Vec<f64>,
    /// How many values make a batch.
    size: u64,
    /// The batch that is being filled.
    sum: f64,
    count: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Batches { full: Vec::with_capacity(Self::MOST), size: 1, sum: 0.0, count: 0 }
    }
}

impl Batches {
    const MOST: usize = 32;

    #[inline]
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        if self.count == self.size {
            self.full.push(self.sum);
            (self.sum, self.count) = (0.0, 0);
            if self.full.len() == Self::MOST {
                self.full = self.full.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
                self.size *= 2;
            }
        }
    }

    /// Of the mean of all values; `None` if there are fewer than two batches.
    fn standard_error(&self) -> Option<f64> {
        let count = self.full.len() as f64;
        if count < 2.0 {
            return None;
        }
        let means = self.full.iter().map(|sum| sum / self.size as f64);
        let mean = means.clone().sum::<f64>() / count;
        let variance = means.map(|m| (m - mean) * (m - mean)).sum::<f64>() / (count - 1.0);
        Some((variance / count).sqrt())
    }
}

/// The requests of one class, or one kind of time of a message benchmark.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassOutcome {
    /// Its name.
    pub name: String,
    /// Requests that were completed and counted: not those of the warm-up.
    pub completed: u64,
    /// From arrival to end, in microseconds; `None`: there was none.
    pub latency_us: Option<Latency>,
    /// The latency divided by the service time.
    pub slowdown: Option<Latency>,
}

/// How often what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Events simulated.
    pub events: u64,
    /// Requests that came, with the warm-up.
    pub arrived: u64,
    /// Requests that ended, with the warm-up.
    pub completed: u64,
    /// Threads entered.
    pub dispatches: u64,
    /// Of those, taken from another worker.
    pub steals: u64,
    /// Notifications sent, and settings of alarms.
    pub sent: u64,
    /// Of those, what led to a switch.
    pub preemptions: u64,
    /// Of those, in vain: another thread was running, or an alarm found nothing due.
    pub stale: u64,
    /// Of those, for nothing: there was no other thread.
    pub useless: u64,
}

/// How a worker spent its time, as shares of the run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct WorkerUse {
    /// Running requests.
    pub busy: f64,
    /// Running best-effort threads.
    pub best_effort: f64,
    /// Switching, being interrupted, polling.
    pub overhead: f64,
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Requests a second offered.
    pub rate: f64,
    /// The same as a share of what keeps all workers busy.
    pub load: f64,
    /// Requests a second completed, from the first arrival to the last.
    pub throughput: f64,
    /// The workers could not follow: latencies grow with the length of the run and mean nothing.
    pub unstable: bool,
    /// Simulated seconds.
    pub seconds: f64,
    /// By class.
    pub classes: Vec<ClassOutcome>,
    /// All classes together.
    pub total: ClassOutcome,
    /// The share of all workers' time that best-effort threads had.
    pub best_effort_share: f64,
    /// By worker.
    pub workers: Vec<WorkerUse>,
    /// How busy the core that keeps time, or the dispatcher, was.
    pub timer_core: f64,
    /// How often what happened.
    pub counts: Counts,
}

impl Outcome {
    /// The class of this name.
    pub fn class(&self, name: &str) -> Option<&ClassOutcome> {
        self.classes.iter().chain([&self.total]).find(|class| class.name == name)
    }
}
