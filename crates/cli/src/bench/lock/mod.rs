//! `quaver bench lock`: threads that contend for one lock, by lock and number of threads.
//! (FlexGuard 5.2, the shared-memory-access microbenchmark of Figures 1 and 2.)
//!
//! Each thread takes the lock, reads and writes two lines of the cache, frees the lock, and spins
//! for 100 cycles of the TSC. All threads of a measurement are there from its beginning, on all
//! CPUs of the place. The reference is the C library's mutex, in the same round.

mod contend;
mod locks;

use std::time::Duration;

use anyhow::bail;
use quaver_bench_common::{Outcome, Sample};
use quaver_lock::monitor;
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};

const METRIC: &str = "ops_per_s";
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Which lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// The C library's.
    Pthread,
    /// A word and `futex`, nothing else.
    Futex,
    /// The same after a short spin.
    SpinPark,
    /// A queue whose threads spin on words of their own.
    Mcs,
    /// Ours without a monitor.
    Unmonitored,
    /// Ours.
    Quaver,
}

impl Kind {
    /// The reference first.
    const ALL: [Kind; 6] =
        [Kind::Pthread, Kind::Futex, Kind::SpinPark, Kind::Mcs, Kind::Unmonitored, Kind::Quaver];

    fn name(self) -> &'static str {
        match self {
            Kind::Pthread => "pthread",
            Kind::Futex => "futex",
            Kind::SpinPark => "spin-park",
            Kind::Mcs => "mcs",
            Kind::Unmonitored => "quaver unmonitored",
            Kind::Quaver => "quaver",
        }
    }
}

/// What a row is about, for programs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct About {
    /// What the threads do: `shared-memory`.
    pub workload: &'static str,
    /// How many contend.
    pub threads: usize,
    /// For which lock.
    pub lock: &'static str,
    /// How many threads compute beside them.
    pub background: usize,
}

/// The numbers of a row, under the names that programs look for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Labelled {
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// Median: critical sections a second, of all threads.
    pub ops_per_s: f64,
    /// Median over rounds: this by that of the C library's mutex in the same round.
    pub ratio_to_pthread: Option<f64>,
}

/// The work of one child.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockSpec {
    lock: Kind,
    threads: usize,
    duration_ms: u64,
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let notes = vec![
        format!("lock: all threads on {} CPUs, from the beginning", context.place.all.len()),
        "lock: ratios are to pthread in the same round".into(),
    ];
    Plan { groups: THREADS.map(|threads| group(context, threads)).into(), notes }
}

fn group(context: &Context, threads: usize) -> Group {
    let duration_ms = context.effort.pick(150, 1000);
    let row = format!("{threads:2} threads");
    let jobs = Kind::ALL.map(|lock| {
        let task = Task {
            cpus: context.place.all.clone(),
            expected: Duration::from_millis(duration_ms),
            readings: vec![Reading::new(row.clone(), METRIC, "ops/s")],
        };
        let spec = LockSpec { lock, threads, duration_ms };
        let mut job = task.job(lock.name(), context.child(&Work::Lock(spec)));
        let workload = "shared-memory";
        job.about = Some(About { workload, threads, lock: lock.name(), background: 0 });
        job
    });
    Group { title: format!("lock {threads} threads"), jobs: jobs.into() }
}

/// Measures.
///
/// # Errors
///
/// When two threads were in the critical section at once.
pub fn run(spec: &LockSpec) -> anyhow::Result<Outcome> {
    if spec.lock == Kind::Quaver
        && let Err(absent) = monitor::attach()
    {
        return Ok(Outcome::Unsupported { unsupported: absent.to_string() });
    }
    let (threads, time) = (spec.threads, Duration::from_millis(spec.duration_ms));
    let done = match spec.lock {
        Kind::Pthread => contend::run::<locks::Pthread>(threads, time),
        Kind::Futex => contend::run::<locks::Futex<0>>(threads, time),
        Kind::SpinPark => contend::run::<locks::Futex<100>>(threads, time),
        Kind::Mcs => contend::run::<locks::Mcs>(threads, time),
        Kind::Unmonitored | Kind::Quaver => contend::run::<quaver_lock::Lock>(threads, time),
    };
    if done.lost != 0 {
        bail!("{} lost {} critical sections", spec.lock.name(), done.lost);
    }
    let wall_ns = u64::try_from(done.took.as_nanos())?;
    let ops_per_s = done.ops as f64 / done.took.as_secs_f64();
    let sample = Sample { ops: done.ops, wall_ns, ..Sample::default() }.with(METRIC, ops_per_s);
    let preempted = monitor::counts().map_or(0, |counts| counts.preempted);
    Ok(sample.with("preempted", preempted as f64).into())
}
