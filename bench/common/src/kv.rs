//! A key-value service under open load, and the highest load that it bears.
//!
//! The client is one kernel thread with a core of its own, which spins until the intended time of
//! each request; the service has one worker on another core. For every request the client starts a
//! thread of the kind that is measured; the thread does the work and notes when it finished.
//! Latency counts from the intended time (`quaver-load`).
//!
//! Load is in percent of the worker's *capacity*, one request in every mean service time. Service
//! times were measured once, without threads, so the same load is the same number of requests a
//! second for all implementations, and what threads and preemption cost is missing from the load
//! that they bear.

use std::time::Duration;

use quaver_load::{
    ArrivalProcess, Class, Clock, Limit, LoadPoint, Mix, Recorder, Request, Schedule, Sent,
    ServiceTime, Slo, Summary, Verdict,
};

use crate::affinity;
use crate::client::{Answers, Client, offer_by};
use crate::outcome::Sample;
use crate::search::highest_passing;
use crate::spec::KvSpec;

/// The index of the class of GETs.
pub const GET: u32 = 0;
/// The index of the class of SCANs.
pub const SCAN: u32 = 1;

/// Metric: the highest load that met the objective in percent of the capacity; 0 when the lowest
/// did not.
pub const LOAD_PERCENT: &str = "load_percent";
/// Metric: the 99th percentile of GETs at that load.
pub const GET_P99_US: &str = "get_p99_us";
/// Metric: the 99th percentile of SCANs at that load.
pub const SCAN_P99_US: &str = "scan_p99_us";

/// How many requests may get no answer when the objective is met: none. The population of
/// percentiles has them anyway.
const TOLERANCE: f64 = 0.0;

/// Fewer requests have no 99th percentile worth the name; low loads are offered for longer.
const MIN_REQUESTS: u64 = 1000;

/// How long to wait for the last answers: longer than any queue that a load below capacity builds.
const GRACE: Duration = Duration::from_secs(10);

/// A load that is to be offered: requests and a place to record them.
pub struct Load {
    /// The requests.
    pub schedule: Schedule,
    answers: Answers,
}

/// A request on its way to a thread that serves it.
pub struct Job {
    id: u64,
    /// [`GET`] or [`SCAN`].
    pub class: u32,
    /// Chooses the key.
    pub random: u64,
    answers: Answers,
}

impl Job {
    /// Notes that the work has been done.
    pub fn finish(self) {
        self.answers.complete(self.id);
    }
}

/// The client: it spins from one request to the next.
fn client(spec: &KvSpec) -> Client {
    Client { cpu: spec.client_cpu, spin_ns: u64::MAX }
}

impl Load {
    /// `percent` of the capacity.
    ///
    /// # Errors
    ///
    /// When the mix or the rate is impossible, or there are too many requests.
    pub fn new(spec: &KvSpec, percent: f64) -> Result<Self, String> {
        let mix = mix(spec)?;
        let capacity = mix.capacity(1).ok_or("the requests have no service time")?;
        let rate = capacity * percent / 100.0;
        let fitting = rate * spec.duration_ms as f64 / 1000.0;
        let limit = Limit::Requests(MIN_REQUESTS.max(fitting as u64));
        let schedule = Schedule::new(ArrivalProcess::Poisson, rate, &mix, limit, spec.seed)
            .map_err(|error| error.to_string())?
            .warm_up(Duration::from_millis(spec.duration_ms / 10));
        let answers = client(spec).answers(&schedule).map_err(|error| error.to_string())?;
        Ok(Self { schedule, answers })
    }

    /// A slot for each of the requests.
    pub fn recorder(&self) -> &Recorder {
        self.answers.recorder()
    }

    /// Offers the load from the calling kernel thread, which should be alone on its core: `send`
    /// starts a thread that serves a job.
    pub fn offer<S: Into<Sent>>(&self, mut send: impl FnMut(Job) -> S) -> Summary {
        self.offer_by(self.answers.clock(), |&Request { id, class, key_random: random, .. }| {
            send(Job { id, class, random, answers: self.answers.clone() })
        })
    }

    /// Offers the load by another clock and in another way.
    pub fn offer_by<S: Into<Sent>>(
        &self,
        clock: &impl Clock,
        send: impl FnMut(&Request) -> S,
    ) -> Summary {
        offer_by(clock, self.recorder(), |open| open.grace(GRACE), &self.schedule, send)
    }
}

fn mix(spec: &KvSpec) -> Result<Mix, String> {
    let class = |name: &str, weight, ns: f64| Class {
        name: name.into(),
        weight,
        service: Some(ServiceTime::Fixed { ns: ns.round() as u64 }),
    };
    let classes = vec![
        class("get", 100.0 - spec.scan_percent, spec.get_ns),
        class("scan", spec.scan_percent, spec.scan_ns),
    ];
    Mix::new(classes).map_err(|error| error.to_string())
}

/// How often a load is offered at most: the majority decides, so that one disturbance does not.
pub const TRIES: u32 = 3;

/// Finds the highest load of `spec` that meets its objective; `offer` offers one.
///
/// # Errors
///
/// Those of `offer`, and of impossible specs.
pub fn find_load(
    spec: &KvSpec,
    mut offer: impl FnMut(&Load) -> Result<Summary, String>,
) -> Result<Sample, String> {
    let slo: Slo =
        format!("get:p99<={}us", spec.slo_us).parse().map_err(|e| format!("objective: {e}"))?;
    let mut best = None;
    let mut worst = None;
    let mut failure = None;
    let found = highest_passing(spec.loads.len(), |i| {
        if failure.is_some() {
            return false;
        }
        match passes(spec, spec.loads[i], &slo, &mut offer) {
            Ok((true, summary)) => {
                best = Some(summary);
                true
            }
            Ok((false, summary)) => {
                worst = Some(summary);
                false
            }
            Err(error) => {
                failure = Some(error);
                false
            }
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let sample = Sample::default().with(LOAD_PERCENT, found.map_or(0.0, |i| spec.loads[i]));
    // Loads pass in ascending order and miss in descending order: the last of each is the one that
    // counts.
    Ok(match (best, worst) {
        (Some(summary), _) => {
            let sample = Sample { ops: summary.total.completed, ..sample };
            sample.with(GET_P99_US, p99_us(&summary, GET)).with(SCAN_P99_US, p99_us(&summary, SCAN))
        }
        (None, Some(summary)) => {
            let (load, p99) = (spec.loads[0], p99_us(&summary, GET));
            sample.note(format!("even at a load of {load} % GET p99 is {p99:.0} us"))
        }
        (None, None) => sample.note("there was no load to try"),
    })
}

/// Offers a load until most of [`TRIES`] agree; whether the objective was met, and the results of
/// the last try that says so.
fn passes(
    spec: &KvSpec,
    percent: f64,
    slo: &Slo,
    offer: &mut impl FnMut(&Load) -> Result<Summary, String>,
) -> Result<(bool, Summary), String> {
    let (mut met, mut missed) = (0, 0);
    loop {
        let summary = offer(&Load::new(spec, percent)?)?;
        let point = LoadPoint { load: percent, summary };
        let verdict = point.verdict(slo, TOLERANCE).map_err(|error| error.to_string())?;
        let count = if verdict == Verdict::Met { &mut met } else { &mut missed };
        *count += 1;
        if 2 * *count > TRIES {
            return Ok((verdict == Verdict::Met, point.summary));
        }
    }
}

/// The 99th percentile of a class; no number when nothing was offered.
fn p99_us(summary: &Summary, class: u32) -> f64 {
    let latency = summary.classes[class as usize].latency_ns.as_ref();
    latency.map_or(f64::NAN, |latency| latency.p99.value as f64 / 1000.0)
}

/// Lets the calling kernel thread, and those that it starts, run on `cpu` only.
///
/// # Errors
///
/// When the process may not use it.
pub fn pin(cpu: usize) -> Result<(), String> {
    affinity::pin(&[cpu]).map_err(|error| format!("cannot use CPU {cpu}: {error}"))
}

/// Runs `work` in a kernel thread on the client's core.
///
/// # Errors
///
/// When it cannot be pinned there, and those of `work`.
///
/// # Panics
///
/// When `work` panics.
pub fn on_client_cpu<T: Send>(
    spec: &KvSpec,
    work: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    let run = client(spec).run(|| work().map_err(anyhow::Error::msg));
    run.map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use quaver_load::SimClock;

    use super::*;

    fn spec() -> KvSpec {
        KvSpec {
            keys: 100,
            get_keys: 1,
            scan_keys: 10,
            get_ns: 1000.0,
            scan_ns: 100_000.0,
            scan_percent: 5.0,
            slo_us: 50,
            loads: vec![10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0],
            duration_ms: 100,
            seed: 1,
            worker_cpu: 0,
            client_cpu: 0,
        }
    }

    /// A simulated server that answers everything after `latency` ns.
    fn serve(load: &Load, latency: u64) -> Summary {
        let clock = SimClock::new();
        load.offer_by(&clock, |request| {
            let (answers, id) = (load.answers.clone(), request.id);
            clock.at(request.intended_ns + latency, move |clock| {
                answers.recorder().complete(id, clock.now_ns());
            });
            Sent::Accepted
        })
    }

    /// A search with servers whose latency depends on the requests a second.
    fn search(latency: impl Fn(f64) -> u64) -> Result<Sample, String> {
        find_load(&spec(), |load| {
            let last = load.schedule.iter().last().unwrap().intended_ns;
            let rate = load.schedule.count() as f64 / last as f64 * 1e9;
            Ok(serve(load, latency(rate)))
        })
    }

    #[test]
    fn load_is_relative_to_the_mean_service_time() {
        // (95 * 1 + 5 * 100) / 100 µs = 5.95 µs: 168,067 a second; a tenth of that for 100 ms, and
        // 10 ms of warm-up.
        let count = |percent| Load::new(&spec(), percent).unwrap().schedule.count();
        assert!((1700..2000).contains(&count(10.0)), "{}", count(10.0));
        // At least a thousand, however long that takes.
        assert!((1000..1020).contains(&count(0.5)), "{}", count(0.5));
    }

    #[test]
    fn the_highest_load_that_meets_the_objective_is_found() {
        // Between 50 % (84,034 a second) and 60 % (100,840).
        let sample = search(|rate| if rate < 92_000.0 { 40_000 } else { 60_000 }).unwrap();
        assert_eq!(sample.metrics[LOAD_PERCENT], 50.0);
        assert!((39.0..41.0).contains(&sample.metrics[GET_P99_US]), "{sample:?}");
        assert!(sample.metrics.contains_key(SCAN_P99_US));
    }

    #[test]
    fn one_disturbance_does_not_decide() {
        let mut calls = 0;
        let sample = find_load(&spec(), |load| {
            calls += 1;
            // Every third answer is late.
            Ok(serve(load, if calls % 3 == 0 { 60_000 } else { 40_000 }))
        });
        assert_eq!(sample.unwrap().metrics[LOAD_PERCENT], 90.0);
    }

    #[test]
    fn missing_every_objective_is_zero_and_said() {
        let sample = search(|_| 60_000).unwrap();
        assert_eq!(sample.metrics[LOAD_PERCENT], 0.0);
        assert!(sample.notes[0].contains("load of 10 % GET p99 is 60 us"), "{sample:?}");
    }

    #[test]
    fn errors_end_the_search() {
        let mut calls = 0;
        let result = find_load(&spec(), |_| {
            calls += 1;
            Err("it broke".into())
        });
        assert_eq!((result, calls), (Err("it broke".into()), 1));
    }
}
