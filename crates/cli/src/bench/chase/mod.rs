//! `quaver bench chase`: what a preemption costs by the way in which a thread's registers are saved
//! (Aspen, Appendix A).
//!
//! Four threads on one worker follow pointers, each in a ring of its own, in random order. All
//! rings together have the size of the row. Where they just fit into a cache, every line of saved
//! registers puts out a line of a ring. At the end of each quantum a thread
//!
//! * *general registers*: yields; the switch saves what a function call keeps;
//! * *vector moves*: stores all vector registers on its stack with ordinary moves first, and loads
//!   them when it goes on;
//! * *xsavec*, *xsave*: the same with these instructions and all state components but AMX;
//! * *signal frame*: is preempted by a signal, for which the kernel saves everything.
//!
//! The row is the additional CPU time of the worker for each switch, against the same loop that
//! looks at the time and never switches.

mod ring;
mod state;

use std::time::Duration;

use anyhow::ensure;
use quaver_bench_common::clock::thread_cpu_ns;
use quaver_bench_common::{Outcome, Sample, iterations_lasting};
use serde::{Deserialize, Serialize};

use self::ring::Ring;
use self::state::State;
use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use super::settings::{Settings, TICKLESS};

const THREADS: usize = 4;
const QUANTUM_US: u64 = 20;
/// Metric: additional CPU time for each switch.
const NS_PER_SWITCH: &str = "ns_per_switch";

/// The work of one child.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChaseSpec {
    saved: Saved,
    /// All rings together.
    bytes: usize,
    /// How much work, in ms without switches.
    work_ms: u64,
    worker_cpu: usize,
    helper_cpu: Option<usize>,
}

/// Where the registers of a thread go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Saved {
    /// The thread yields, and saves this much before.
    ByThread(State),
    /// The kernel interrupts it.
    InSignalFrame,
}

impl Saved {
    fn name(self) -> &'static str {
        match self {
            Saved::ByThread(state) => state.name(),
            Saved::InSignalFrame => "signal frame",
        }
    }
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let all = (12..=23).map(|power| 1 << power).collect();
    let sizes = context.effort.pick(vec![32 << 10, 1 << 20], all);
    let mut notes = vec!["chase: CPU time of the worker's kernel thread, at 20 us".to_owned()];
    let missing = State::ALL.into_iter().filter(|state| !state.available());
    notes.extend(missing.map(|state| format!("chase: this processor has no {}", state.name())));
    Plan { groups: sizes.into_iter().map(|bytes| group(context, bytes)).collect(), notes }
}

fn group(context: &Context, bytes: usize) -> Group {
    let states = State::ALL.into_iter().filter(|state| state.available());
    let jobs = states.map(Saved::ByThread).chain([Saved::InSignalFrame]).map(|saved| {
        let place = &context.place;
        let work_ms = context.effort.pick(20, 100);
        let row = format!("{} KiB", bytes >> 10);
        let task = Task {
            cpus: place.both(),
            expected: Duration::from_millis(6 * work_ms),
            readings: vec![Reading::new(row, NS_PER_SWITCH, "ns")],
        };
        let spec =
            ChaseSpec { saved, bytes, work_ms, worker_cpu: place.worker, helper_cpu: place.helper };
        task.job(format!("quaver {}", saved.name()), context.child(&Work::Chase(spec)))
    });
    Group { title: format!("chase {} KiB", bytes >> 10), jobs: jobs.collect() }
}

/// Measures.
///
/// # Errors
///
/// When the runtime cannot be built, or there was no switch.
pub fn run(spec: &ChaseSpec) -> anyhow::Result<Outcome> {
    let cpus = [spec.worker_cpu];
    let settings = match spec.saved {
        Saved::ByThread(_) => Settings::run_to_completion(&cpus),
        Saved::InSignalFrame => {
            let settings = Settings::preemptive(TICKLESS[0], QUANTUM_US, &cpus);
            settings.policy("rr").timer_cpu(spec.helper_cpu)
        }
    };
    let runtime = settings.build()?;
    let rings: Vec<_> = (0..THREADS).map(|i| Ring::new(spec.bytes / THREADS, i as u64)).collect();
    let quantum = Duration::from_micros(QUANTUM_US);
    let work = Duration::from_millis(spec.work_ms) / THREADS as u32;
    let measured = runtime.run(|| {
        let chase_alone = |ring: &Ring, hops| ring.chase(hops, quantum, &|| {}).1;
        let hops = iterations_lasting(work, |hops| {
            chase_alone(&rings[0], hops);
        });
        let alone = || taken(|| rings.iter().map(|ring| chase_alone(ring, hops)).sum());
        let (before, _) = alone();
        let stats = runtime.stats();
        let (took, yields) = taken(|| match spec.saved {
            Saved::ByThread(state) => {
                together(&rings, hops, quantum, &|| state.around(quaver::yield_now))
            }
            Saved::InSignalFrame => together(&rings, hops, quantum, &|| {}),
        });
        let preemptions = runtime.stats().since(&stats).preempt_useful;
        let (after, _) = alone();
        let switches = match spec.saved {
            Saved::ByThread(_) => yields,
            Saved::InSignalFrame => preemptions,
        };
        (took as f64 - (before + after) as f64 / 2.0, switches, took)
    });
    let (more, switches, cpu_ns) = measured;
    ensure!(switches > 0, "there was no switch in {:?}", Duration::from_nanos(cpu_ns));
    let sample = Sample { ops: switches, cpu_ns, ..Sample::default() };
    Ok(sample.with(NS_PER_SWITCH, more / switches as f64).into())
}

/// CPU time of the worker's kernel thread, and what `body` returns.
fn taken(body: impl FnOnce() -> u64) -> (u64, u64) {
    let start = thread_cpu_ns();
    let value = body();
    (thread_cpu_ns() - start, value)
}

/// Every ring has a thread. Returns how many quanta ended.
fn together(rings: &[Ring], hops: u64, quantum: Duration, at_end: &(dyn Fn() + Sync)) -> u64 {
    quaver::scope(|s| {
        let threads: Vec<_> =
            rings.iter().map(|ring| s.spawn(move || ring.chase(hops, quantum, at_end).1)).collect();
        threads.into_iter().map(|thread| thread.join().expect("chasing does not panic")).sum()
    })
}
