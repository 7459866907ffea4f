//! `quaver bench mixes`: the loads of the papers' figures, offered to one worker of the real runtime.
//!
//! Aspen's Figs. 5 and 10 (95 % of 1 µs, 5 % of 260 µs), Skyloft's 7a (99.5 % of 4 µs, 0.5 % of 10 ms) and 8b (half of 0.95
//! µs, half of 591 µs) take 15 to 25 cores. Here the same mixes are offered to one worker at the same shares of its
//! capacity, with and without preemption: a client on another CPU sends requests at Poisson times, each is a user thread
//! that runs a loop of calibrated length, and latency counts from the intended time. What a network and a store would add
//! is left out.
//!
//! `bench/figures` draws the rows beside a simulation of the same worker and beside the papers' curves.

use std::time::Duration;

use anyhow::Context as _;
use quaver_bench_common::{Outcome, Sample};
use quaver_load::{ArrivalProcess, Limit, Mix, Schedule};
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use crate::validate::real::{Speed, serve};

/// The name of a metric: percentile of latency, or of slowdown.
const METRICS: [&str; 3] = ["p50", "p99", "p99_9"];

/// One of the papers' loads.
struct Figure {
    name: &'static str,
    mix: &'static str,
    /// Whose latency counts; `None`: of all requests.
    class: Option<&'static str>,
    slowdown: bool,
    policies: &'static [&'static str],
    /// Those that are also measured with [`TAX`].
    taxed: &'static [&'static str],
}

/// How much of the worker's time preemptions may take, in percent.
const TAX: u32 = 10;

const FIGURES: [Figure; 3] = [
    Figure {
        name: "aspen",
        mix: "get:95%:fixed=1us,scan:5%:fixed=260us",
        class: Some("get"),
        slowdown: false,
        policies: &[
            "ws:quantum=none",
            "two-queue:quantum=20us,long=500us",
            "ws:quantum=20us",
            "adaptive:quantum=20us,max=100us",
        ],
        taxed: &["two-queue:quantum=20us,long=500us", "ws:quantum=20us"],
    },
    Figure {
        name: "dispersive",
        mix: "short:99.5%:fixed=4us,long:0.5%:fixed=10ms",
        class: None,
        slowdown: false,
        policies: &["fifo", "shinjuku:quantum=30us", "two-queue:quantum=30us"],
        taxed: &["two-queue:quantum=30us"],
    },
    Figure {
        name: "rocksdb",
        mix: "get:50%:fixed=950ns,scan:50%:fixed=591us",
        class: None,
        slowdown: true,
        policies: &["ws:quantum=none", "ws:quantum=20us", "ws:quantum=50us"],
        taxed: &["ws:quantum=20us"],
    },
];

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MixSpec {
    mix: String,
    class: Option<String>,
    slowdown: bool,
    policy: String,
    tax: u32,
    load_percent: u32,
    span_ms: u64,
    worker: usize,
    client: usize,
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let Some(client) = context.place.helper else {
        let note = "mixes: left out: it takes a second CPU, for the client";
        return Plan { groups: vec![], notes: vec![note.into()] };
    };
    let loads: &[u32] = context.effort.pick(&[50], &[30, 50, 70, 80]);
    let figures = FIGURES.iter().flat_map(|figure| loads.iter().map(move |&load| (figure, load)));
    let groups = figures.map(|(figure, load)| group(context, figure, load, client)).collect();
    let note =
        "mixes: latency from the intended time, or divided by the service time, on one worker";
    Plan { groups, notes: vec![note.into()] }
}

fn group(context: &Context, figure: &Figure, load_percent: u32, client: usize) -> Group {
    let title = format!("{} {load_percent}%", figure.name);
    let span_ms = context.effort.pick(300, 3_000);
    let unit = if figure.slowdown { "x" } else { "us" };
    let readings =
        METRICS.map(|name| Reading::new(format!("{title} {}", name.replace('_', ".")), name, unit));
    let task = Task {
        cpus: context.place.both(),
        expected: Duration::from_millis(2 * span_ms),
        readings: readings.into(),
    };
    let untaxed = figure.policies.iter().map(|&policy| (policy, 100));
    let variants = untaxed.chain(figure.taxed.iter().map(|&policy| (policy, TAX)));
    let jobs = variants.map(|(policy, tax)| {
        let spec = MixSpec {
            mix: figure.mix.into(),
            class: figure.class.map(str::to_owned),
            slowdown: figure.slowdown,
            policy: policy.into(),
            tax,
            load_percent,
            span_ms,
            worker: context.place.worker,
            client,
        };
        let name = match tax {
            100 => format!("quaver {policy}"),
            _ => format!("quaver {policy} tax={tax}"),
        };
        task.job(name, context.child(&Work::Mixes(spec)))
    });
    Group { title: format!("mixes {title}"), jobs: jobs.collect() }
}

/// Measures.
///
/// # Errors
///
/// When the runtime cannot be built, the client cannot run on its CPU, or nothing was served in time.
pub fn run(spec: &MixSpec) -> anyhow::Result<Outcome> {
    let runtime = quaver::Builder::new()
        .workers(1)
        .cpus(vec![spec.worker])
        .policy_str(&spec.policy)
        .tax(spec.tax)
        .build()
        .with_context(|| format!("cannot build a runtime with the policy {}", spec.policy))?;
    let mix: Mix = spec.mix.parse().context("the mix is not well-formed")?;
    let capacity = mix.capacity(1).context("a class of the mix has no service time")?;
    let span = Duration::from_millis(spec.span_ms);
    let rate = capacity * f64::from(spec.load_percent) / 100.0;
    let seed = u64::from(spec.load_percent);
    let schedule = Schedule::new(ArrivalProcess::Poisson, rate, &mix, Limit::Duration(span), seed)?;
    let speed = runtime.run(|| Speed::measure(None));
    let summary =
        serve(&runtime, &schedule.warm_up(span / 10), spec.client, speed, span, None)?.summary;
    let class = match &spec.class {
        Some(name) => summary.classes.iter().find(|class| class.name == *name),
        None => Some(&summary.total),
    };
    let class = class.context("the mix has no such class")?;
    let sample = Sample { ops: class.completed, ..Sample::default() };
    let none = "no request was served";
    let values = if spec.slowdown {
        let of = class.slowdown.context(none)?;
        [of.p50, of.p99, of.p999].map(|slowdown| slowdown.value)
    } else {
        let of = class.latency_ns.context(none)?;
        [of.p50, of.p99, of.p999].map(|ns| ns.value as f64 / 1e3)
    };
    let sample =
        METRICS.into_iter().zip(values).fold(sample, |s, (name, value)| s.with(name, value));
    let missing = class.offered - class.completed;
    Ok(if missing > 0 {
        sample.note(format!("{missing} of {} requests were not served", class.offered))
    } else {
        sample
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_and_policies_can_be_parsed() {
        for figure in FIGURES {
            let mix: Mix = figure.mix.parse().unwrap();
            assert!(mix.capacity(1).unwrap() > 0.0);
            let names: Vec<_> = mix.classes().iter().map(|class| class.name.as_str()).collect();
            assert!(figure.class.is_none_or(|class| names.contains(&class)));
            for policy in figure.policies.iter().chain(figure.taxed) {
                policy.parse::<quaver::PolicySpec>().unwrap();
            }
        }
    }
}
