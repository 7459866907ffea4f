//! `quaver bench kv`: the highest load that a key-value service bears while 99 % of its GETs take
//! at most 50 µs.
//!
//! 95 % GETs of about 1 µs and 5 % SCANs of about 260 µs meet one worker; a GET that arrives during
//! a SCAN waits for its end, unless the SCAN is preempted. All implementations get the same
//! arrivals at the same rates (percent of what one worker could serve without any threads); a
//! search finds the highest load that still meets the objective, the same way for all
//! ([`quaver_bench_common::kv`]).
//!
//! *Ours* runs to completion, and with each clock at several quanta; *tokio* has a task for each
//! request, *pthread* a kernel thread; all of these serve the demo's store in one process with the
//! client, which has a core of its own. *Go* cannot use that store: it does the same work, in time,
//! on a sorted slice, and gets requests through [shared memory](ring).

pub mod ring;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use quaver_bench_common::kv::{GET_P99_US, LOAD_PERCENT, SCAN_P99_US, TRIES};
use quaver_bench_common::spec::KvSpec;
use quaver_bench_common::{Outcome, Sample, Spec};
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Effort, Group, Job, Plan, Reading};
use super::settings::{CLOCKS, Settings, TICKLESS};
use crate::demo::calibrate::{ScanSize, Services, calibrate as measure_services};
use crate::process;
use quaver_bench_common::store::Store;

/// Rows of the store.
const KEYS: u64 = 100_000;
/// Keys that a GET looks up: about a microsecond.
const GET_KEYS: usize = 2;
/// How long a SCAN takes.
const SCAN_TIME: Duration = Duration::from_micros(260);
const SCAN_PERCENT: f64 = 5.0;
const SLO_US: u64 = 50;
const SEED: u64 = 1;

/// What a calibrating child is asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CalibrateSpec {
    worker_cpu: usize,
}

/// Measures the service times; the metrics are the fields of [`Services`].
///
/// # Errors
///
/// When the store cannot be loaded or answers wrongly.
pub fn calibrate(spec: &CalibrateSpec) -> anyhow::Result<Outcome> {
    let store = Store::load(KEYS, SEED)?;
    let services =
        measure_services(&store, &[spec.worker_cpu], GET_KEYS, ScanSize::Time(SCAN_TIME))?;
    let sample = Sample::default()
        .with("scan_keys", services.scan_keys as f64)
        .with("get_ns", services.get_ns)
        .with("scan_ns", services.scan_ns);
    Ok(sample.into())
}

/// The jobs of this benchmark.
///
/// # Errors
///
/// When the service times cannot be measured.
pub fn plan(context: &Context) -> anyhow::Result<Plan> {
    let place = &context.place;
    let Some(client_cpu) = place.helper else {
        let note = "kv: left out: the client takes a second CPU".into();
        return Ok(Plan { groups: vec![], notes: vec![note] });
    };
    let services = services(context)?;
    let spec = KvSpec {
        keys: KEYS,
        get_keys: GET_KEYS,
        scan_keys: services.scan_keys,
        get_ns: services.get_ns,
        scan_ns: services.scan_ns,
        scan_percent: SCAN_PERCENT,
        slo_us: SLO_US,
        loads: loads(context.effort),
        duration_ms: context.effort.pick(400, 2000),
        seed: SEED,
        worker_cpu: place.worker,
        client_cpu,
    };
    let mut plan = Plan { groups: vec![group(context, &spec)], notes: vec![] };
    plan.notes.push(format!(
        "kv: GETs take {:.2} us and SCANs {:.0} us on the worker; load is in percent of what it \
         could serve",
        services.get_ns / 1e3,
        services.scan_ns / 1e3
    ));
    if place.all.len() < 3 {
        plan.notes.push("kv: no timer core: beside worker and client it takes a third CPU".into());
    }
    Ok(plan)
}

/// Percents of the capacity. Low ones, too: without preemption one percent of SCANs is enough to
/// spoil GETs.
fn loads(effort: Effort) -> Vec<f64> {
    let low = effort.pick(vec![1.0, 5.0], vec![0.5, 1.0, 2.0, 3.0, 5.0, 7.5]);
    let step = effort.pick(10, 5);
    low.into_iter().chain((10..100).step_by(step).map(f64::from)).collect()
}

fn services(context: &Context) -> anyhow::Result<Services> {
    let worker_cpu = context.place.worker;
    let mut words = context.child(&Work::KvCalibrate(CalibrateSpec { worker_cpu })).into_iter();
    let mut command = Command::new(words.next().context("no program")?);
    command.args(words);
    let limit = Duration::from_secs(120);
    let outcome = process::run(command, &[worker_cpu], limit).context("measuring service times")?;
    let Outcome::Sample(Sample { metrics, .. }) = outcome else {
        bail!("measuring service times: {outcome:?}");
    };
    let metric = |name: &str| metrics.get(name).copied().with_context(|| format!("no {name}"));
    Ok(Services {
        get_keys: GET_KEYS,
        scan_keys: metric("scan_keys")? as usize,
        get_ns: metric("get_ns")?,
        scan_ns: metric("scan_ns")?,
    })
}

fn group(context: &Context, spec: &KvSpec) -> Group {
    let place = &context.place;
    let probes = TRIES * (spec.loads.len().ilog2() + 1);
    let task = Task {
        cpus: place.both(),
        // A low load takes some seconds to get its requests together.
        expected: probes * Duration::from_millis(spec.duration_ms.max(3000)),
        readings: vec![
            Reading::new(format!("load with GET p99 <= {SLO_US} us"), LOAD_PERCENT, "%"),
            Reading::new("GET p99 at that load", GET_P99_US, "us"),
            Reading::new("SCAN p99 at that load", SCAN_P99_US, "us"),
        ],
    };
    let work = Spec::Kv(spec.clone());
    let mut jobs = vec![context.ours(&Settings::run_to_completion(&[place.worker]), &work, &task)];
    jobs.extend(preemptive(context).into_iter().map(|(settings, cpus)| {
        let task = Task { cpus, ..task.clone() };
        context.ours(&settings, &work, &task)
    }));
    // Go needs another client; may is compared in ops and wake.
    jobs.extend(context.peers_if(&work, &task, |name| !["go", "may"].contains(&name)));
    jobs.extend(go(context, spec, &task));
    Group { title: "kv".into(), jobs }
}

/// Every clock that has room, at several quanta, and the CPUs for it.
fn preemptive(context: &Context) -> Vec<(Settings, Vec<usize>)> {
    let place = &context.place;
    // A spinning core beside the client's and the worker's.
    let third = place.all.iter().copied().find(|cpu| !place.both().contains(cpu));
    let clocks = if third.is_some() { &CLOCKS[..] } else { &TICKLESS };
    let quanta = context.effort.pick(vec![20, 50], vec![10, 20, 35, 50]);
    let settings = |clock: &str, quantum| {
        Settings::preemptive(clock, quantum, &[place.worker]).timer_cpu(third)
    };
    let mut all = Vec::new();
    for &clock in clocks {
        let extra = third.filter(|_| clock == CLOCKS[0]);
        let cpus: Vec<usize> = place.both().into_iter().chain(extra).collect();
        all.extend(quanta.iter().map(|&quantum| (settings(clock, quantum), cpus.clone())));
    }
    all
}

fn go(context: &Context, spec: &KvSpec, task: &Task) -> Option<Job> {
    let program = Path::new(context.peers.get("go")?.command.first()?).to_str()?.to_owned();
    let work = Work::KvRing { program, spec: spec.clone() };
    Some(task.job("go", context.child(&work)))
}
