//! One round of one server: its loads, and the highest that it bears.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use quaver_bench_common::{Outcome, Sample, affinity};
use quaver_load::{Distribution, Measured, Summary};
use serde::{Deserialize, Serialize};

use super::offer::Offer;
use super::search::{Tried, Verdict};
use super::workload::{KEYS, VALUE_BYTES, Which, Workload};
use crate::bench::net::server::{Manner, Server};
use crate::slice;
use quaver_bench_common::noise::Noise;

/// Short requests may take so many times what they take alone.
pub const TIMES_ALONE: f64 = 20.0;
/// All requests may take so many times what they take alone, at the 99.9th percentile.
pub const SLOWDOWN: f64 = 50.0;
/// The load, in percent, at which short requests are sent alone.
const ALONE_PERCENT: f64 = 20.0;
/// How often. The lowest median counts: a disturbance must not make the objective an easy one.
const ALONE: u64 = 3;
/// For how long, at least.
const ALONE_LEAST: Duration = Duration::from_millis(60);

/// Metric: the highest load at which short requests stay fast.
pub const LOAD_PERCENT: &str = "load_percent";
/// Metric: requests a second at that load.
pub const RATE: &str = "per_s";
/// Metric: the same for the slowdown.
pub const SLOWDOWN_LOAD_PERCENT: &str = "slowdown_load_percent";
/// Metric: the median of short requests without others.
pub const ALONE_US: &str = "alone_p50_us";
/// Metric: at the highest load.
pub const SHORT_P99_US: &str = "short_p99_us";
/// Metric: likewise.
pub const LONG_P99_US: &str = "long_p99_us";
/// Metric: at a load that is shown.
pub const SLOWDOWN_P999: &str = "slowdown_p999";
/// Metric: how late the client sent requests, at the highest load.
pub const CLIENT_LATE_US: &str = "client_late_p99_us";
/// Metric: how much of the server's CPU the host, or another process, took, before it started.
pub const TAKEN_PERCENT: &str = "taken_percent";

/// For how long the server's CPU is watched before it serves.
const WATCH: Duration = Duration::from_millis(100);
/// A load that misses its objective by more is not offered again, unless the client was late.
const NEAR: f64 = 3.0;
/// Fewer short requests have no 99th percentile worth the name; low loads are offered for longer,
/// but not for longer than this many times.
const REQUESTS: f64 = 1_000.0;
const LONGER: f64 = 2.0;
/// How long a server may be busy with a load after its end: longer than a busy machine takes over
/// what an overload leaves.
const PATIENCE: Duration = Duration::from_secs(60);

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoundSpec {
    /// The server: program and arguments.
    pub command: Vec<String>,
    /// How it is started and ended.
    pub manner: Manner,
    /// Where it runs.
    pub server_cpu: usize,
    /// Where the client runs.
    pub client_cpu: usize,
    /// What is asked for.
    pub workload: Which,
    /// Requests a second at a load of 100 %.
    pub per_s: f64,
    /// Loads to choose from, ascending, in percent.
    pub loads: Vec<u32>,
    /// Loads that are offered in any case.
    pub shown: Vec<u32>,
    /// How long a load is offered, in ms.
    pub probe_ms: u64,
    /// Do loads get a second chance?
    pub again: bool,
}

/// The metric of a class at a load that is shown.
pub fn class_p99_us(class: &str) -> String {
    format!("{class}_p99_us")
}

/// The same, the 99.9th percentile.
pub fn class_p999_us(class: &str) -> String {
    format!("{class}_p999_us")
}

/// A metric at a load that is shown.
pub fn at(load: u32, metric: &str) -> String {
    format!("{metric} at {load}%")
}

/// Measures.
///
/// # Errors
///
/// A [`Crash`](crate::process::Crash) when the server dies; or it refuses requests, does not
/// answer any, or is not idle again when they have ended.
pub fn run(spec: &RoundSpec) -> anyhow::Result<Outcome> {
    let host = Noise::watch(spec.server_cpu, WATCH)?;
    let server = match Server::start(&spec.command, &[spec.server_cpu], spec.manner)? {
        Ok(server) => server,
        Err(outcome) => return Ok(outcome),
    };
    // After the server has started, which would inherit it.
    affinity::pin(&[spec.client_cpu]).context("the client's CPU")?;
    slice::set(Duration::from_micros(100));
    let round = Round { spec, workload: spec.workload.workload(), server: &server };
    match round.measure() {
        Ok(sample) => {
            server.stop()?;
            Ok(sample.with(TAKEN_PERCENT, host.lost_percent).into())
        }
        Err(error) => Err(server.blamed(error)),
    }
}

struct Round<'a> {
    spec: &'a RoundSpec,
    workload: &'static Workload,
    server: &'a Server,
}

/// The medians of classes that were sent alone, in ns.
type Alone = BTreeMap<&'static str, u64>;

/// A load that was offered, once or twice.
struct Probe(Vec<Summary>);

impl Round<'_> {
    fn measure(&self) -> anyhow::Result<Sample> {
        if self.spec.manner == Manner::Foreign {
            let workload = self.workload;
            quaver_load::net::fill(workload.protocol(), self.server.address, KEYS, VALUE_BYTES)?;
        }
        let alone = self.alone()?;
        let mut tried = Tried::new(self.spec.loads.clone());
        for &load in &self.spec.shown {
            tried.result(load, |load| self.probe(load, &alone))?;
        }
        let offer = |load| self.probe(load, &alone);
        let fast = |summary: &Summary| self.missed(summary, &alone);
        let (best, worst) =
            tried.highest(offer, |load, probe| self.judge(load, probe, &alone, fast))?;
        let short = self.workload.short.iter().map(|class| alone[class]).min().unwrap_or(0);
        let mut sample = Sample::default().with(ALONE_US, short as f64 / 1e3);
        sample = self.with_best(sample, LOAD_PERCENT, best);
        let at_best = tried.result(best.unwrap_or(self.spec.loads[0]), offer)?.best(fast);
        sample = self.with_latencies(sample, at_best);
        if let Some(worst) = worst {
            let above = tried.result(worst, offer)?.best(fast);
            if self.client_failed(above, &alone) {
                sample = sample.note(format!(
                    "{}: at {worst} % the client itself is late by more than half of what is \
                     allowed: the server may bear more",
                    self.workload.name
                ));
            }
        }
        if self.workload.slowdown {
            let slowdown = |summary: &Summary| {
                let slowdown = summary.total.slowdown.as_ref().map(|slowdown| slowdown.p999);
                slowdown.map_or(f64::INFINITY, |p999| beyond(p999, SLOWDOWN))
            };
            let (best, _) =
                tried.highest(offer, |load, probe| self.judge(load, probe, &alone, slowdown))?;
            sample = self.with_best(sample, SLOWDOWN_LOAD_PERCENT, best);
        }
        for &load in &self.spec.shown {
            sample = self.with_shown(sample, load, &tried.result(load, offer)?.0[0]);
        }
        Ok(sample)
    }

    /// Sends each class that must be known alone, as often as at [`ALONE_PERCENT`].
    fn alone(&self) -> anyhow::Result<Alone> {
        let long = self.workload.long.filter(|_| self.workload.slowdown);
        let mut alone = Alone::new();
        for class in self.workload.short.iter().copied().chain(long) {
            let medians = (0..ALONE).map(|seed| self.median_alone(class, seed));
            let medians = medians.collect::<anyhow::Result<Vec<_>>>()?;
            let lowest = medians.into_iter().flatten().min();
            let lowest = lowest.with_context(|| {
                format!("most of the requests for {class} are not answered, even alone")
            })?;
            alone.insert(class, lowest);
        }
        Ok(alone)
    }

    /// In ns; nothing where most got no answer.
    fn median_alone(&self, class: &'static str, seed: u64) -> anyhow::Result<Option<u64>> {
        let summary = Offer {
            workload: self.workload,
            classes: vec![(class, 1.0, None)],
            per_s: self.spec.per_s * self.workload.share(class) * ALONE_PERCENT / 100.0,
            span: ALONE_LEAST.max(Duration::from_millis(self.spec.probe_ms / ALONE)),
            warm_up: ALONE_LEAST / 10,
            grace: Duration::from_secs(2),
            seed,
        }
        .make(self.server.address)?;
        self.settle()?;
        let p50 = summary.total.latency_ns.map(|latency| latency.p50);
        Ok(p50.filter(|p50| !p50.at_least).map(|p50| p50.value))
    }

    fn probe(&self, load: u32, alone: &Alone) -> anyhow::Result<Probe> {
        Ok(Probe(vec![self.offer(load, alone, 1)?]))
    }

    fn offer(&self, load: u32, alone: &Alone, seed: u64) -> anyhow::Result<Summary> {
        let per_s = self.spec.per_s * f64::from(load) / 100.0;
        let short: f64 = self.workload.short.iter().map(|class| self.workload.share(class)).sum();
        let ms = self.spec.probe_ms as f64;
        let ms = (1e3 * REQUESTS / (per_s * short)).clamp(ms, LONGER * ms);
        let classes = self.workload.mix.iter();
        let summary = Offer {
            workload: self.workload,
            classes: classes
                .map(|&(name, share)| (name, share, alone.get(name).copied()))
                .collect(),
            per_s,
            span: Duration::from_secs_f64(ms / 1e3),
            warm_up: Duration::from_secs_f64(ms / 1e4),
            grace: Duration::from_millis(200),
            seed,
        }
        .make(self.server.address)?;
        self.settle()?;
        Ok(summary)
    }

    /// Does a load pass? `missed` is by what factor an objective was missed. A load that missed it
    /// nearly, or because the client was late, gets a second chance: one disturbance is not to
    /// decide.
    fn judge(
        &self,
        load: u32,
        probe: &mut Probe,
        alone: &Alone,
        missed: impl Fn(&Summary) -> f64,
    ) -> anyhow::Result<Verdict> {
        let first = probe.best(&missed);
        let by = missed(first);
        let chance = by <= NEAR || self.client_failed(first, alone);
        if by > 1.0 && chance && self.spec.again && probe.0.len() == 1 {
            probe.0.push(self.offer(load, alone, 2)?);
        }
        let best = probe.best(&missed);
        Ok(match missed(best) {
            ..=1.0 => Verdict::Passes,
            _ if self.client_failed(best, alone) => Verdict::Disturbed,
            _ => Verdict::Fails,
        })
    }

    /// How many times longer short requests take than they may.
    fn missed(&self, summary: &Summary, alone: &Alone) -> f64 {
        let of = |class: &&str| {
            let latency = summary.class(class).and_then(|class| class.latency_ns.as_ref());
            let limit = TIMES_ALONE * alone[class] as f64;
            // Nothing was offered of a rare class: there is nothing to miss.
            latency.map_or(0.0, |latency| beyond(nanoseconds(latency.p99), limit))
        };
        self.workload.short.iter().map(of).fold(0.0, f64::max)
    }

    /// Is it the client that is slow?
    fn client_failed(&self, summary: &Summary, alone: &Alone) -> bool {
        let limit = self.workload.short.iter().map(|class| alone[class]).min().unwrap_or(0);
        late_ns(summary) > TIMES_ALONE * limit as f64 / 2.0
    }

    /// Waits until the server has nothing left to do, so that the next load does not pay for the
    /// last.
    fn settle(&self) -> anyhow::Result<()> {
        const LOOK: Duration = Duration::from_millis(10);
        let begun = Instant::now();
        loop {
            let (before, at) = (self.server.cpu_ns()?, Instant::now());
            std::thread::sleep(LOOK);
            let used = (self.server.cpu_ns()? - before) as f64;
            if used < 0.2 * at.elapsed().as_nanos() as f64 {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                bail!("the server is still busy {PATIENCE:?} after its load has ended");
            }
        }
    }

    /// Adds the highest load that passes.
    fn with_best(&self, sample: Sample, metric: &str, best: Option<u32>) -> Sample {
        let lowest = self.spec.loads[0];
        let load = best.unwrap_or(lowest);
        let sample = sample.with(metric, f64::from(load));
        let sample = if metric == LOAD_PERCENT {
            sample.with(RATE, self.spec.per_s * f64::from(load) / 100.0)
        } else {
            sample
        };
        match best {
            Some(_) => sample,
            None => {
                let name = self.workload.name;
                let which = if metric == LOAD_PERCENT { "short requests" } else { "the slowdown" };
                sample.note(format!(
                    "{name}: even {lowest} %, the lowest load, is too much for {which}"
                ))
            }
        }
    }

    fn with_latencies(&self, sample: Sample, summary: &Summary) -> Sample {
        let p99 = |class: &&str| us(summary, class, |latency| latency.p99);
        let short = self.workload.short.iter().filter_map(p99).reduce(f64::max);
        let sample = sample.with(CLIENT_LATE_US, late_ns(summary) / 1e3);
        let sample = sample.with(SHORT_P99_US, short.unwrap_or(f64::NAN));
        let long = self.workload.long.and_then(|class| p99(&class));
        sample.with(LONG_P99_US, long.unwrap_or(f64::NAN))
    }

    fn with_shown(&self, mut sample: Sample, load: u32, summary: &Summary) -> Sample {
        for class in self.workload.shown_classes() {
            let p99 = us(summary, class, |latency| latency.p99).unwrap_or(f64::NAN);
            sample = sample.with(&at(load, &class_p99_us(class)), p99);
        }
        let class = self.workload.short[0];
        let p999 = us(summary, class, |latency| latency.p999).unwrap_or(f64::NAN);
        sample = sample.with(&at(load, &class_p999_us(class)), p999);
        let slowdown = summary.total.slowdown.as_ref().map(|slowdown| slowdown.p999);
        match slowdown.filter(|p999| self.workload.slowdown && !p999.at_least) {
            Some(p999) => sample.with(&at(load, SLOWDOWN_P999), p999.value),
            None => sample,
        }
    }
}

impl Probe {
    /// Of one or two, the one that misses an objective less.
    fn best(&self, missed: impl Fn(&Summary) -> f64) -> &Summary {
        let better = |a: &&Summary, b: &&Summary| missed(a).total_cmp(&missed(b));
        self.0.iter().min_by(better).expect("it was offered")
    }
}

/// How many times a limit; infinitely many where too many requests have no answer.
fn beyond(measured: Measured<f64>, limit: f64) -> f64 {
    if measured.at_least { f64::INFINITY } else { measured.value / limit }
}

fn nanoseconds(measured: Measured<u64>) -> Measured<f64> {
    Measured { value: measured.value as f64, at_least: measured.at_least }
}

/// A percentile of a class; nothing where too many requests have no answer.
fn us(
    summary: &Summary,
    class: &str,
    percentile: fn(&Distribution<u64>) -> Measured<u64>,
) -> Option<f64> {
    let measured = percentile(summary.class(class)?.latency_ns.as_ref()?);
    (!measured.at_least).then(|| measured.value as f64 / 1e3)
}

fn late_ns(summary: &Summary) -> f64 {
    let late = summary.generator.as_ref().and_then(|generator| generator.lateness_ns.as_ref());
    late.map_or(0.0, |late| late.p99.value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_missed_by_a_factor_or_altogether() {
        let measured = |value, at_least| Measured { value, at_least };
        assert_eq!(beyond(measured(30.0, false), 20.0), 1.5);
        assert_eq!(beyond(measured(10.0, false), 20.0), 0.5);
        // Too many requests have no answer: however little that would be, it is too much.
        assert_eq!(beyond(measured(10.0, true), 20.0), f64::INFINITY);
    }

    #[test]
    fn of_two_tries_the_better_counts() {
        let summary = |ns: u64| {
            let recorder = quaver_load::Recorder::new(["get"], 1).unwrap();
            let mut summary = quaver_load::OpenLoop::new(&recorder)
                .run([], &quaver_load::RealClock::with_spin_ns(0), |_| quaver_load::Sent::Accepted)
                .summary(&recorder);
            summary.window_ns = ns;
            summary
        };
        let probe = Probe(vec![summary(3), summary(1), summary(2)]);
        assert_eq!(probe.best(|summary| summary.window_ns as f64).window_ns, 1);
    }
}
