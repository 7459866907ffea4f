//! `quaver bench preempt`: what one preemption costs.
//!
//! A fixed amount of work, split between threads that never yield, is done on one worker: first by
//! a plain kernel thread (the baseline), then with preemption at a quantum, then by a plain kernel
//! thread again. At least two threads, so that every preemption is a real switch: two that compute,
//! or those of `--tasks`, such as `get*8+scan*8` (Aspen, Fig. 8). With T the CPU time of the
//! worker's kernel thread and T0 the mean of the two baselines,
//!
//! * *slowdown* = T / T0 - 1, what preempting at this quantum takes from the threads;
//! * *cost* = (T - T0) / events, what one event takes;
//! * *clock* = CPU time of all other threads of the process, in percent of the time on the wall:
//!   what keeping time takes elsewhere.
//!
//! With `--tasks` the cost is split: *handler* is what an empty handler takes at the same quantum
//! (Aspen's preemption cost), *switch* the rest (Aspen's context-switch cost).
//!
//! Ours, with each clock, stands beside an *empty* signal handler (what the kernel takes for
//! delivering a signal) and a *naive* one that switches contexts inside the handler and goes back
//! through `rt_sigreturn` (what preemption costs before any trick). Both are driven by a thread on
//! another core that spins and calls `tgkill`, one quantum after the last event was over, and by a
//! periodic POSIX timer.
//!
//! Each thread's result must be that of the baseline: whoever corrupts a register changes it.

mod bare;
mod crew;
mod measure;
mod mix;
mod naive;
mod ours;
mod ticker;

use std::time::Duration;

use quaver_bench_common::compute::Loop;
use serde::{Deserialize, Serialize};

pub use self::measure::run;
pub use self::mix::Mix;
use self::ticker::Source;
use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Job, Plan, Reading};
use super::settings::{CLOCKS, Settings, TICKLESS};

/// The work of one child.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PreemptSpec {
    /// Who preempts.
    mechanism: Mechanism,
    /// Who is preempted.
    mix: Mix,
    /// How often, in µs.
    quantum_us: u64,
    /// Who sends to the empty handler with which the cost is compared.
    split: Option<Source>,
    /// How much work: what takes that long without preemption, in ms.
    work_ms: u64,
    /// The core of the threads that compute.
    worker_cpu: usize,
    /// Another core, for threads that keep time.
    helper_cpu: Option<usize>,
}

/// Who preempts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mechanism {
    /// A runtime with these settings.
    Ours(Settings),
    /// A signal handler that does nothing.
    Empty(Source),
    /// A signal handler that switches.
    Naive(Source),
}

impl Mechanism {
    /// Who sends the same signals to the handler with which its cost is compared.
    fn source(&self) -> Option<Source> {
        match self {
            Mechanism::Ours(settings) => match settings.preemption.as_ref()?.clock.as_str() {
                "posix-timer" => Some(Source::PosixTimer),
                _ => Some(Source::Tgkill),
            },
            Mechanism::Naive(source) => Some(*source),
            Mechanism::Empty(_) => None,
        }
    }
}

/// The jobs of this benchmark, with these threads or the usual ones.
pub fn plan(context: &Context, tasks: Option<&Mix>) -> Plan {
    let quanta = context.effort.pick(vec![20, 100], vec![5, 10, 20, 50, 100, 200]);
    let mut plan = Plan::default();
    for &quantum in &quanta {
        for clock in too_slow(quantum) {
            plan.notes.push(format!("preempt: {clock} left out at {quantum} us: it is too slow"));
        }
    }
    let usual = [Loop::Scalar, Loop::Avx].map(Mix::two);
    for mix in tasks.map_or(&usual[..], std::slice::from_ref) {
        if mix.threads().all(mix::Kind::available) {
            let split = tasks.is_some();
            let groups = quanta.iter().map(|&quantum| group(context, mix, quantum, split));
            plan.groups.extend(groups);
        } else {
            plan.notes.push(format!("preempt: {mix} left out: avx takes AVX2 and FMA"));
        }
    }
    if context.place.helper.is_none() {
        plan.notes.push("preempt: no timer core and no tgkill: these take a second CPU".into());
    }
    plan.notes.push("preempt: CPU time of the worker's kernel thread".into());
    plan
}

/// The clocks that refuse so short a quantum.
fn too_slow(quantum_us: u64) -> Vec<&'static str> {
    let quantum = Duration::from_micros(quantum_us);
    let refuses = |name: &&str| {
        let clock: Result<quaver::Clock, _> = name.parse();
        clock.is_ok_and(|clock| clock.min_quantum() > quantum)
    };
    CLOCKS.into_iter().filter(refuses).collect()
}

fn group(context: &Context, mix: &Mix, quantum_us: u64, split: bool) -> Group {
    let jobs = mechanisms(context, quantum_us)
        .into_iter()
        .map(|(name, mechanism)| job(context, name, mechanism, mix, quantum_us, split));
    Group { title: format!("preempt {mix} {quantum_us}us"), jobs: jobs.collect() }
}

/// Who can preempt at this quantum on this machine; ours first.
fn mechanisms(context: &Context, quantum_us: u64) -> Vec<(String, Mechanism)> {
    let place = &context.place;
    let two_cpus = place.helper.is_some();
    let clocks = if two_cpus { &CLOCKS[..] } else { &TICKLESS };
    let too_slow = too_slow(quantum_us);
    let ours = clocks.iter().filter(|clock| !too_slow.contains(clock)).map(|clock| {
        // Under round robin every quantum ends in a preemption while another thread waits.
        let settings = Settings::preemptive(clock, quantum_us, &[place.worker]).policy("rr");
        let settings = settings.timer_cpu(place.helper);
        (format!("quaver {clock}"), Mechanism::Ours(settings))
    });
    let sources = [(Source::Tgkill, "tgkill"), (Source::PosixTimer, "timer_create")];
    let sources = sources.into_iter().filter(|&(source, _)| two_cpus || source != Source::Tgkill);
    let signals = sources.flat_map(|(source, name)| {
        [
            (format!("naive handler, {name}"), Mechanism::Naive(source)),
            (format!("empty handler, {name}"), Mechanism::Empty(source)),
        ]
    });
    ours.chain(signals).collect()
}

fn job(
    context: &Context,
    name: String,
    mechanism: Mechanism,
    mix: &Mix,
    quantum_us: u64,
    split: bool,
) -> Job {
    let place = &context.place;
    let work_ms = context.effort.pick(40, 200);
    let split = mechanism.source().filter(|_| split);
    let row = |what: &str, metric, unit| {
        Reading::new(format!("{mix} {quantum_us}us {what}"), metric, unit)
    };
    let mut readings = vec![
        row("slowdown", measure::SLOWDOWN_PERCENT, "%"),
        row("cost", measure::NS_PER_EVENT, "ns"),
        row("clock", measure::CLOCK_PERCENT, "%"),
    ];
    if split.is_some() {
        readings.push(row("handler", measure::HANDLER_NS, "ns"));
        readings.push(row("switch", measure::SWITCH_NS, "ns"));
    }
    let task = Task { cpus: place.both(), expected: Duration::from_millis(6 * work_ms), readings };
    let spec = PreemptSpec {
        mechanism,
        mix: mix.clone(),
        quantum_us,
        split,
        work_ms,
        worker_cpu: place.worker,
        helper_cpu: place.helper,
    };
    task.job(name, context.child(&Work::Preempt(spec)))
}
