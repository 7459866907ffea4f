//! `quaver bench mixes`: the loads of the papers' figures, offered to one worker of the real
//! runtime.
//!
//! Aspen's Figs. 5 and 10 (95 % of 1 µs, 5 % of 260 µs), Skyloft's 7a (99.5 % of 4 µs, 0.5 % of 10
//! ms) and 8b (half of 0.95 µs, half of 591 µs) take 15 to 25 cores. Here the same mixes are
//! offered to one worker at the same shares of its capacity, with and without preemption: a client
//! on another CPU sends requests at Poisson times, each is a user thread that runs a loop of
//! calibrated length, and latency counts from the intended time. What a network and a store would
//! add is left out.
//!
//! `bench/figures` draws the rows beside a simulation of the same worker and beside the papers'
//! curves.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use quaver_bench_common::{Outcome, Sample};
use quaver_load::{ArrivalProcess, Limit, Mix, Schedule};
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use quaver_validate::real::{Speed, serve};

/// Percentiles of latency, or of slowdown, of each class and of all requests.
const PERCENTILES: [&str; 3] = ["p50", "p99", "p99.9"];
/// The name of all requests together.
const ALL: &str = "all";

/// One of the papers' loads.
struct Figure {
    name: &'static str,
    mix: &'static str,
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
        slowdown: false,
        policies: &["fifo", "shinjuku:quantum=30us", "two-queue:quantum=30us"],
        taxed: &["two-queue:quantum=30us"],
    },
    Figure {
        name: "rocksdb",
        mix: "get:50%:fixed=950ns,scan:50%:fixed=591us",
        slowdown: true,
        policies: &["ws:quantum=none", "ws:quantum=20us", "ws:quantum=50us"],
        taxed: &["ws:quantum=20us"],
    },
];

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MixSpec {
    mix: String,
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
    let classes = names(figure.mix);
    let reading = |metric: String| Reading::new(format!("{title} {metric}"), metric, unit);
    let readings = classes.iter().flat_map(|class| metrics(class)).map(reading).collect();
    let task =
        Task { cpus: context.place.both(), expected: Duration::from_millis(2 * span_ms), readings };
    let untaxed = figure.policies.iter().map(|&policy| (policy, 100));
    let variants = untaxed.chain(figure.taxed.iter().map(|&policy| (policy, TAX)));
    let jobs = variants.map(|(policy, tax)| {
        let spec = MixSpec {
            mix: figure.mix.into(),
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
/// When the runtime cannot be built, the client cannot run on its CPU, or nothing was served in
/// time.
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
    let all = &summary.total;
    ensure!(all.completed > 0, "no request was served");
    let mut sample = Sample { ops: all.completed, ..Sample::default() };
    for (name, class) in names(&spec.mix).iter().zip(summary.classes.iter().chain([all])) {
        // A class of which nothing came in a short run has no row.
        let values = if spec.slowdown {
            class.slowdown.map(|of| [of.p50, of.p99, of.p999].map(|slowdown| slowdown.value))
        } else {
            class.latency_ns.map(|of| [of.p50, of.p99, of.p999].map(|ns| ns.value as f64 / 1e3))
        };
        for (metric, value) in metrics(name).iter().zip(values.into_iter().flatten()) {
            sample = sample.with(metric, value);
        }
    }
    let missing = all.offered - all.completed;
    Ok(if missing > 0 {
        sample.note(format!("{missing} of {} requests were not served", all.offered))
    } else {
        sample
    }
    .into())
}

/// The classes of a mix, and what all together are called.
fn names(mix: &str) -> Vec<String> {
    let mix: Mix = mix.parse().expect("the mix is well-formed");
    let classes = mix.classes().iter().map(|class| class.name.clone());
    classes.chain([ALL.to_owned()]).collect()
}

fn metrics(class: &str) -> [String; 3] {
    PERCENTILES.map(|percentile| format!("{class} {percentile}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_and_policies_can_be_parsed() {
        for figure in FIGURES {
            let mix: Mix = figure.mix.parse().unwrap();
            assert!(mix.capacity(1).unwrap() > 0.0);
            assert_eq!(names(figure.mix).len(), 3);
            for policy in figure.policies.iter().chain(figure.taxed) {
                policy.parse::<quaver::PolicySpec>().unwrap();
            }
        }
    }
}
