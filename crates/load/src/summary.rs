//! The results of a run.

use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, Values};
use crate::open_loop::Drops;
use crate::recorder::{Fate, Recorder, Sample, WithoutSlotCounts};

/// Slowdowns are collected in thousandths.
const PER_SLOWDOWN: f64 = 1e3;

/// The results of a run, without its warm-up.
///
/// * **Population.** Every request that the schedule offered: completed, unfinished, dropped and
///   unsent. The last three never got an answer; in percentiles they rank above all completed
///   requests, with their age at the end of the run as a lower bound (see [`Distribution`]).
/// * **Latency** is completion minus *intended* send time.
/// * **Slowdown** is latency divided by the service time; for requests whose service time is known.
/// * **Rates** are counted over the window from the first intended send time to the last: requests
///   intended after the first moment of the window and up to its end, and completions in it (also
///   of warm-up requests: throughput does not care who started them). Requests for which the
///   recorder had no slot are in no rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// From the first intended send time to the last, in nanoseconds.
    pub window_ns: u64,
    /// Requests of the warm-up; they are in no other count.
    pub warm_up: u64,
    /// Completions of requests that were not outstanding: duplicates, or answers to nothing.
    pub stray: u64,
    /// Each class, in the order of their indices.
    pub classes: Vec<ClassSummary>,
    /// All classes together, under the name `total`.
    pub total: ClassSummary,
    /// How well the generator did its part, if it was an [`OpenLoop`](crate::OpenLoop).
    pub generator: Option<GeneratorSummary>,
}

/// The results of a class. `offered = sent + dropped + unsent` and `sent = completed + unfinished`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassSummary {
    /// The name of the class.
    pub name: String,
    /// Requests in the schedule.
    pub offered: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that completed.
    pub completed: u64,
    /// Requests that were sent and had not completed when the run ended.
    pub unfinished: u64,
    /// Requests that were due and not sent: too many outstanding, refused by the sending function,
    /// or without a slot.
    pub dropped: u64,
    /// Requests not sent when the time limit came.
    pub unsent: u64,
    /// Requests offered a second; `None` when the window has no length.
    pub offered_rate: Option<f64>,
    /// Requests completed a second; `None` when the window has no length.
    pub achieved_rate: Option<f64>,
    /// Latency in nanoseconds; `None` when nothing was offered.
    pub latency_ns: Option<Distribution<u64>>,
    /// Slowdown; `None` when no request has a known service time.
    pub slowdown: Option<Distribution<f64>>,
}

impl ClassSummary {
    /// The share of offered requests that did not complete, from 0 to 1; 0 when nothing was
    /// offered.
    pub fn lost_share(&self) -> f64 {
        match self.offered {
            0 => 0.0,
            offered => (offered - self.completed) as f64 / offered as f64,
        }
    }
}

/// How well the generator did its part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorSummary {
    /// Actual minus intended send time in nanoseconds, of all requests that came to be sent or
    /// dropped. It is part of the latencies already; when it is not far below them, they say more
    /// about the generator than about the server.
    pub lateness_ns: Option<Distribution<u64>>,
    /// Why requests were dropped.
    pub drops: Drops,
    /// When the run began, in nanoseconds of the clock.
    pub start_ns: u64,
    /// When the last request had been dealt with.
    pub sent_all_ns: u64,
    /// When the run ended.
    pub end_ns: u64,
}

impl Summary {
    pub(crate) fn of(recorder: &Recorder, end_ns: u64) -> Self {
        let window = Window::of(recorder.samples());
        let mut classes: Vec<_> = recorder.classes().iter().map(|_| Tally::new()).collect();
        let mut total = Tally::new();
        let mut warm_up = 0;
        for sample in recorder.samples() {
            let class = &mut classes[sample.class as usize];
            if let Fate::Completed { at_ns } = sample.fate {
                let inside = u64::from(window.contains(at_ns));
                class.completed_inside += inside;
                total.completed_inside += inside;
            }
            if sample.warm_up {
                warm_up += 1;
                continue;
            }
            class.add(&sample, &window, end_ns);
            total.add(&sample, &window, end_ns);
        }
        for (index, class) in classes.iter_mut().enumerate() {
            let counts = recorder.without_slot(index);
            class.add_without_slot(&counts);
            total.add_without_slot(&counts);
        }
        let span_ns = window.span_ns();
        Self {
            window_ns: span_ns,
            warm_up,
            stray: recorder.stray(),
            classes: classes
                .into_iter()
                .zip(recorder.classes())
                .map(|(tally, name)| tally.finish(name, span_ns))
                .collect(),
            total: total.finish("total", span_ns),
            generator: None,
        }
    }

    /// The results of the class of this name.
    pub fn class(&self, name: &str) -> Option<&ClassSummary> {
        self.classes.iter().find(|class| class.name == name)
    }
}

/// From the first intended send time to the last. Rates count what is after the first and up to the
/// last, so that n requests at equal gaps make n - 1 of them.
struct Window {
    first_ns: u64,
    last_ns: u64,
}

impl Window {
    fn of(samples: impl Iterator<Item = Sample>) -> Self {
        let nothing = Self { first_ns: u64::MAX, last_ns: 0 };
        samples.filter(|sample| !sample.warm_up).fold(nothing, |window, sample| Self {
            first_ns: window.first_ns.min(sample.intended_ns),
            last_ns: window.last_ns.max(sample.intended_ns),
        })
    }

    fn contains(&self, time_ns: u64) -> bool {
        self.first_ns < time_ns && time_ns <= self.last_ns
    }

    fn span_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }
}

/// The counts and values of a class, or of all.
struct Tally {
    completed: u64,
    unfinished: u64,
    dropped: u64,
    unsent: u64,
    offered_inside: u64,
    completed_inside: u64,
    latency: Values,
    slowdown: Values,
}

impl Tally {
    fn new() -> Self {
        Self {
            completed: 0,
            unfinished: 0,
            dropped: 0,
            unsent: 0,
            offered_inside: 0,
            completed_inside: 0,
            latency: Values::new(),
            slowdown: Values::new(),
        }
    }

    fn add(&mut self, sample: &Sample, window: &Window, end_ns: u64) {
        self.offered_inside += u64::from(window.contains(sample.intended_ns));
        match sample.fate {
            Fate::Completed { .. } => self.completed += 1,
            Fate::Unfinished => self.unfinished += 1,
            Fate::Dropped => self.dropped += 1,
            Fate::Unsent => self.unsent += 1,
        }
        let slowdown = |ns: u64| {
            let thousandths = u128::from(ns) * PER_SLOWDOWN as u128 / u128::from(sample.service_ns);
            u64::try_from(thousandths).unwrap_or(u64::MAX)
        };
        let has_service = sample.service_ns > 0;
        match sample.latency_ns() {
            Some(latency) => {
                self.latency.record(latency);
                if has_service {
                    self.slowdown.record(slowdown(latency));
                }
            }
            None => {
                let age = end_ns.saturating_sub(sample.intended_ns);
                self.latency.record_bound(age);
                if has_service {
                    self.slowdown.record_bound(slowdown(age));
                }
            }
        }
    }

    /// Requests of which only the number is known.
    fn add_without_slot(&mut self, counts: &WithoutSlotCounts) {
        self.dropped += counts.dropped;
        self.unsent += counts.unsent;
        for _ in 0..counts.dropped + counts.unsent {
            self.latency.record_bound(0);
        }
        for _ in 0..counts.timed {
            self.slowdown.record_bound(0);
        }
    }

    fn finish(self, name: &str, span_ns: u64) -> ClassSummary {
        let sent = self.completed + self.unfinished;
        let rate = |count: u64| (span_ns > 0).then(|| count as f64 * 1e9 / span_ns as f64);
        ClassSummary {
            name: name.to_owned(),
            offered: sent + self.dropped + self.unsent,
            sent,
            completed: self.completed,
            unfinished: self.unfinished,
            dropped: self.dropped,
            unsent: self.unsent,
            offered_rate: rate(self.offered_inside),
            achieved_rate: rate(self.completed_inside),
            latency_ns: self.latency.distribution(),
            slowdown: self.slowdown.distribution().map(|d| d.divided(PER_SLOWDOWN)),
        }
    }
}
