//! What a demo run found: the structure of the JSON document.
//!
//! Times are microseconds as decimal numbers, rates requests a second, loads percent of the
//! workers' capacity.

use quaver_load::{Distribution, Measured};
use serde::Serialize;

use super::args::Mode;
use super::calibrate::Services;
use quaver_bench_common::noise::Noise;

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this command.
    pub version: &'static str,
    /// Where it was measured.
    pub machine: Machine,
    /// What was asked for, resolved.
    pub settings: Settings,
    /// The requests by themselves.
    pub services: Services,
    /// How many requests a second would keep all workers busy without pause: workers / mean service
    /// time.
    pub capacity_rps: f64,
    /// The bottom line.
    pub summary: Summary,
    /// One row for each mode and load.
    pub rows: Vec<Row>,
}

/// Where it was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: Option<String>,
    /// The hypervisor, if there is one.
    pub hypervisor: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// CPUs that this process may use.
    pub usable_cpus: Vec<usize>,
    /// The workers' CPUs.
    pub worker_cpus: Vec<usize>,
    /// The client's CPU.
    pub client_cpu: usize,
    /// What disturbed the measurement for want of CPUs.
    pub crowded: Option<&'static str>,
    /// What the machine itself did on the first worker's CPU, before and after the runs.
    pub noise: Noise,
}

/// What was asked for, with defaults filled in.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Settings {
    /// Percentages of GETs and SCANs.
    pub mix: String,
    /// The arrival process.
    pub arrivals: String,
    /// The policy of the modes that preempt, in full, as signals use it.
    pub policy: String,
    /// Its quantum.
    pub quantum_us: f64,
    /// The clock, as used.
    pub clock: String,
    /// How workers are told, in each of these modes.
    pub notification: String,
    /// How long an idle worker looks for work before it sleeps in the kernel.
    pub idle_spin_us: f64,
    /// Workers.
    pub workers: usize,
    /// Rows in the store.
    pub keys: u64,
    /// The seed.
    pub seed: u64,
    /// What GET p99 had to stay below.
    pub slo_us: f64,
    /// How long each load was offered in each mode and round, in seconds, after the warm-up.
    pub round_s: f64,
    /// Rounds.
    pub rounds: usize,
}

/// One mode at one load: the round with the median GET p99.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// How requests were served.
    pub mode: Mode,
    /// The offered load.
    pub load_percent: f64,
    /// Requests offered a second.
    pub offered_rps: f64,
    /// Requests completed a second.
    pub achieved_rps: f64,
    /// Latencies of the GETs, if there were any.
    pub get: Option<Latency>,
    /// Latencies of the SCANs, if there were any.
    pub scan: Option<Latency>,
    /// What happened to preemption requests.
    pub preemptions: Preemptions,
    /// Requests that were not sent when the time was over.
    pub unsent: u64,
    /// Requests that were due and not sent, because too many were outstanding.
    pub dropped: u64,
    /// Requests that were sent and did not complete.
    pub unfinished: u64,
    /// How late the client sent: the 99th percentile. It is part of the latencies.
    pub client_late_p99_us: f64,
    /// GET p99 of each round that counts: the undisturbed ones, if there were enough.
    pub get_p99_us_rounds: Vec<f64>,
    /// How many of these the machine disturbed, although loads were repeated.
    pub disturbed_rounds: usize,
    /// How many there were in all.
    pub all_rounds: usize,
}

impl Row {
    /// Was one of the rounds that count disturbed?
    pub fn is_marked(&self) -> bool {
        self.disturbed_rounds > 0
    }
}

/// Latencies from the intended send time, over all requests that were offered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Requests offered.
    pub count: u64,
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The largest.
    pub max_us: f64,
    /// The first of these that is only a lower bound, because requests did not complete; those
    /// after it are, too.
    pub at_least_from: Option<&'static str>,
}

impl Latency {
    /// From a distribution in nanoseconds.
    pub fn of(distribution: &Distribution<u64>) -> Latency {
        let Distribution { count, p50, p99, p999, max, .. } = distribution;
        let us = |figure: &Measured<u64>| figure.value as f64 / 1e3;
        let named = [("p50", p50), ("p99", p99), ("p999", p999), ("max", max)];
        let bound = named.into_iter().find(|(_, figure)| figure.at_least);
        Latency {
            count: *count,
            p50_us: us(p50),
            p99_us: us(p99),
            p999_us: us(p999),
            max_us: us(max),
            at_least_from: bound.map(|(name, _)| name),
        }
    }
}

/// What happened to preemption requests during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preemptions {
    /// Sent to workers.
    pub sent: u64,
    /// Received by a worker that ran a thread.
    pub received: u64,
    /// Put off, because the thread was in a region that must not be preempted.
    pub deferred: u64,
    /// Dropped, because they came too late to matter.
    pub stale: u64,
    /// Those that led to a switch.
    pub useful: u64,
    /// Those of these that were taken at a probe.
    pub at_probe: u64,
}

/// The bottom line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// For each mode the highest load at which it and all lower ones kept GET p99 below the
    /// objective.
    pub slo_load_percent: SloLoads,
    /// The load with signals divided by that of run-to-completion, if both are above 0.
    pub ratio: Option<f64>,
    /// The load with probes divided by that of run-to-completion.
    pub probe_ratio: Option<f64>,
    /// What preemption bought, in a sentence.
    pub verdict: String,
    /// GET p99 with signals by that without preemption, for each load that both were measured at.
    pub get_p99_ratio: Vec<LoadRatio>,
    /// The same of SCANs.
    pub scan_p99_ratio: Vec<LoadRatio>,
    /// Requests completed a second with signals, by those without preemption.
    pub throughput_ratio: Vec<LoadRatio>,
    /// GET p99 with probes by that without preemption.
    pub probe_get_p99_ratio: Vec<LoadRatio>,
    /// The same of SCANs.
    pub probe_scan_p99_ratio: Vec<LoadRatio>,
    /// And requests completed a second.
    pub probe_throughput_ratio: Vec<LoadRatio>,
    /// What the runtime preempts with, in the mode with signals.
    pub chosen: Option<Chosen>,
    /// And in the mode with probes.
    pub probe_chosen: Option<Chosen>,
}

/// A ratio at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LoadRatio {
    pub load_percent: f64,
    pub ratio: f64,
}

/// What the runtime preempts with, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chosen {
    /// How long a request may run while others wait.
    pub quantum_us: f64,
    /// What an interruption by a signal takes of a worker's time, as measured.
    pub price_us: f64,
    /// Who keeps time.
    pub clock: String,
    /// How a worker is told.
    pub notification: String,
    /// Why this quantum.
    pub why: String,
}

/// For each mode the highest load that met the objective: 0 when not even the lowest did, `null`
/// when the mode was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the modes explain themselves")]
pub struct SloLoads {
    pub run_to_completion: Option<f64>,
    pub preemptive: Option<f64>,
    pub probe: Option<f64>,
}

impl SloLoads {
    /// That of `mode`.
    pub fn of(&self, mode: Mode) -> Option<f64> {
        match mode {
            Mode::RunToCompletion => self.run_to_completion,
            Mode::Preemptive => self.preemptive,
            Mode::Probe => self.probe,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A latency of which all percentiles are multiples of `p50`.
    pub(crate) fn latency(p50: f64) -> Latency {
        Latency {
            count: 1000,
            p50_us: p50,
            p99_us: p50 * 10.0,
            p999_us: p50 * 20.0,
            max_us: p50 * 30.0,
            at_least_from: None,
        }
    }

    /// A row with these figures.
    pub(crate) fn row(mode: Mode, load_percent: f64, get_p50: f64) -> Row {
        Row {
            mode,
            load_percent,
            offered_rps: load_percent * 740.0,
            achieved_rps: load_percent * 739.0,
            get: Some(latency(get_p50)),
            scan: Some(latency(get_p50 * 100.0)),
            preemptions: Preemptions {
                sent: 9,
                received: 8,
                deferred: 1,
                stale: 2,
                useful: 6,
                at_probe: 0,
            },
            unsent: 0,
            dropped: 0,
            unfinished: 0,
            client_late_p99_us: 1.0,
            disturbed_rounds: 0,
            all_rounds: 1,
            get_p99_us_rounds: vec![get_p50 * 9.0, get_p50 * 10.0, get_p50 * 11.0],
        }
    }

    /// A report with two modes and three loads.
    pub(crate) fn report() -> Report {
        let rows = [Mode::RunToCompletion, Mode::Preemptive].into_iter().flat_map(|mode| {
            let slow = if mode == Mode::Preemptive { 1.0 } else { 20.0 };
            [10.0, 50.0, 90.0].map(|load| row(mode, load, slow * load / 20.0))
        });
        Report {
            version: "0.1.0",
            machine: Machine {
                processor: Some("A <fast> Processor & more".into()),
                ..Machine::default()
            },
            settings: Settings { slo_us: 50.0, mix: "95/5".into(), ..Settings::default() },
            services: Services { get_keys: 1, scan_keys: 4500, get_ns: 600.0, scan_ns: 260e3 },
            capacity_rps: 74_000.0,
            rows: rows.collect(),
            summary: Summary::default(),
        }
    }

    #[test]
    fn bounds_are_named_from_the_first() {
        let exact = |value| Measured { value, at_least: false };
        let mut distribution = Distribution {
            count: 5,
            min: exact(1),
            mean: Measured { value: 1.0, at_least: false },
            p50: exact(1500),
            p90: exact(2),
            p99: exact(3),
            p999: exact(4),
            max: exact(5),
        };
        assert_eq!(Latency::of(&distribution).at_least_from, None);
        assert_eq!(Latency::of(&distribution).p50_us, 1.5);
        distribution.p999.at_least = true;
        distribution.max.at_least = true;
        assert_eq!(Latency::of(&distribution).at_least_from, Some("p999"));
    }

    #[test]
    fn json_has_the_names_that_scripts_use() {
        let mut report = report();
        report.summary.slo_load_percent.preemptive = Some(70.0);
        let json = serde_json::to_value(report).unwrap();
        assert_eq!(json["summary"]["slo_load_percent"]["preemptive"], 70.0);
        assert!(json["summary"]["slo_load_percent"]["run_to_completion"].is_null());
        let row = &json["rows"][0];
        assert_eq!(row["mode"], "run_to_completion");
        for path in [
            "/get/p50_us",
            "/get/p99_us",
            "/get/p999_us",
            "/scan/p99_us",
            "/offered_rps",
            "/achieved_rps",
            "/preemptions/sent",
            "/preemptions/received",
            "/preemptions/deferred",
            "/preemptions/stale",
            "/preemptions/useful",
            "/unsent",
            "/dropped",
            "/unfinished",
        ] {
            assert!(row.pointer(path).is_some_and(|v| v.is_number()), "{path}");
        }
    }
}
