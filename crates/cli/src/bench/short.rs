//! `quaver bench short`: what a clock costs where no thread outlives its quantum.
//!
//! * *queue*: threads of 2 us, each of which starts the next before it ends. The queue is never
//!   empty, so something always waits and nothing is ever due.
//! * *echo*: two threads send a message to and fro.
//!
//! A clock that looks at the end of each quantum looks in vain. *stale* is how many of its requests
//! found nothing to stop, for a hundred threads or messages. CPU time is that of the whole process,
//! clocks' threads among it, so nothing is hidden on another CPU.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::ensure;
use quaver::sync::mpsc;
use quaver_bench_common::clock::Stopwatch;
use quaver_bench_common::compute::{scalar, scalar_iterations};
use quaver_bench_common::outcome::CPU_NS_PER_OP;
use quaver_bench_common::{Outcome, Sample};
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use super::settings::{Settings, TICKLESS};

const QUANTUM_US: u64 = 50;
const THREAD_NS: u64 = 2000;
/// Threads that wait at any time.
const WAITING: usize = 64;
const STALE_PERCENT: &str = "stale_percent";

/// The work of one child.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShortSpec {
    settings: Settings,
    load: Load,
    duration_ms: u64,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Load {
    Queue,
    Echo,
}

impl Load {
    const ALL: [Load; 2] = [Load::Queue, Load::Echo];

    fn name(self) -> &'static str {
        match self {
            Load::Queue => "queue",
            Load::Echo => "echo",
        }
    }
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let groups = Load::ALL.map(|load| group(context, load)).into();
    Plan { groups, notes: vec!["short: CPU time of the process, for a thread or message".into()] }
}

fn group(context: &Context, load: Load) -> Group {
    let place = &context.place;
    let duration_ms = context.effort.pick(100, 500);
    let completion = Settings::run_to_completion(&[place.worker]);
    let preemptive = TICKLESS.map(|c| Settings::preemptive(c, QUANTUM_US, &[place.worker]));
    let jobs = std::iter::once(completion).chain(preemptive).map(|settings| {
        let mut readings = vec![Reading::new(load.name(), CPU_NS_PER_OP, "ns")];
        if settings.preemption.is_some() {
            readings.push(Reading::new(format!("{} stale", load.name()), STALE_PERCENT, "%"));
        }
        let expected = Duration::from_millis(duration_ms);
        let task = Task { cpus: place.both(), expected, readings };
        let name = settings.to_string();
        task.job(name, context.child(&Work::Short(ShortSpec { settings, load, duration_ms })))
    });
    Group { title: format!("short {}", load.name()), jobs: jobs.collect() }
}

/// Measures.
///
/// # Errors
///
/// When the runtime cannot be built.
pub fn run(spec: &ShortSpec) -> anyhow::Result<Outcome> {
    let runtime = spec.settings.build()?;
    let shared = Arc::new(Shared::new(scalar_iterations(THREAD_NS)));
    let ends = {
        let (shared, time) = (shared.clone(), Duration::from_millis(spec.duration_ms));
        std::thread::spawn(move || {
            // Clocks that begin quickly have found their pace by then.
            std::thread::sleep(time / 5);
            let (watch, done) = (Stopwatch::start(), shared.done.load(Relaxed));
            std::thread::sleep(time);
            let (elapsed, done) = (watch.elapsed(), shared.done.load(Relaxed) - done);
            shared.stop.store(true, Relaxed);
            (elapsed, done)
        })
    };
    let before = runtime.stats();
    runtime.run(|| match spec.load {
        Load::Queue => chains(&shared),
        Load::Echo => echo(&shared),
    });
    let stale = runtime.stats().since(&before).preempt_stale;
    let (elapsed, done) = ends.join().expect("it only sleeps");
    ensure!(done > 0, "nothing was done in {} ms", spec.duration_ms);
    let all = shared.done.load(Relaxed).max(1);
    let sample = Sample::of_ops(done, elapsed);
    Ok(sample.with(STALE_PERCENT, 100.0 * stale as f64 / all as f64).into())
}

/// What the threads share.
struct Shared {
    iterations: u64,
    done: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    fn new(iterations: u64) -> Shared {
        Shared { iterations, done: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }
}

fn chains(shared: &Arc<Shared>) {
    let ended = quaver::sync::WaitGroup::new();
    for _ in 0..WAITING {
        link(shared.clone(), ended.clone());
    }
    ended.wait();
}

/// A thread that starts its successor and computes.
fn link(shared: Arc<Shared>, ended: quaver::sync::WaitGroup) {
    if shared.stop.load(Relaxed) {
        drop(ended);
    } else {
        quaver::spawn_detached(move || {
            black_box(scalar(1, shared.iterations));
            shared.done.fetch_add(1, Relaxed);
            link(shared, ended);
        });
    }
}

fn echo(shared: &Shared) {
    let (to, from) = mpsc::channel::<u64>();
    let (back, answers) = mpsc::channel::<u64>();
    quaver::scope(|s| {
        s.spawn(move || {
            for message in from {
                if back.send(message + 1).is_err() {
                    return;
                }
            }
        });
        while !shared.stop.load(Relaxed) {
            let done = shared.done.fetch_add(1, Relaxed);
            to.send(done).expect("the other thread listens");
            answers.recv().expect("the other thread answers");
        }
        drop(to);
    });
}
