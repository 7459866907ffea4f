//! One measurement: a workload, a lock, a number of threads.

use std::time::Duration;

use anyhow::bail;
use quaver_bench_common::{Outcome, Sample};
use quaver_lock::monitor;
use serde::{Deserialize, Serialize};

use crate::Kind;
use crate::locks::cycles_per_us;
use crate::programs::dedup::{self, Dedup};
use crate::programs::index::{self, Index};
use crate::programs::raytrace::Raytrace;
use crate::programs::streamcluster::Streamcluster;
use crate::programs::{Ran, Size};
use crate::work::crew::{Crew, Done};
use crate::work::crowd::Crowd;
use crate::work::hash::HashTable;
use crate::work::shared::{BETWEEN, SharedMemory};

/// The metric of all of them: operations a second, of all threads.
pub const OPS: &str = "ops_per_s";

/// What threads do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Two lines of the cache under one lock.
    SharedMemory,
    /// 100 buckets.
    HashTable,
    /// The first, with another pause between two sections, in cycles.
    Fairness(u64),
    /// The first, while somebody looks who can run.
    Runnable,
    /// A B+-tree of very many locks.
    Index,
    /// A table of many locks, all of them used.
    Dedup,
    /// A picture; one contended lock.
    Raytrace,
    /// Points and centres; barriers.
    Streamcluster,
}

impl Workload {
    /// Its name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Workload::SharedMemory => "shared-memory",
            Workload::HashTable => "hash-table",
            Workload::Fairness(_) => "fairness",
            Workload::Runnable => "runnable",
            Workload::Index => "index",
            Workload::Dedup => "dedup",
            Workload::Raytrace => "raytrace",
            Workload::Streamcluster => "streamcluster",
        }
    }

    /// Why it is not run with a lock.
    pub fn refuses(self, lock: Kind) -> Option<&'static str> {
        let many = matches!(self, Workload::Index | Workload::Dedup);
        (many && lock == Kind::UScl)
            .then_some("u-scl keeps an account for each thread and lock: too many here")
    }
}

/// One measurement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// What the threads do.
    pub workload: Workload,
    /// With which lock.
    pub lock: Kind,
    /// How many.
    pub threads: usize,
    /// How many compute beside them.
    pub background: usize,
    /// For how long; of programs: in so many milliseconds as a thousandth of their full work each.
    pub duration_ms: u64,
}

impl Spec {
    /// Measures, in this process: the first use of ours attaches its monitor.
    ///
    /// # Errors
    ///
    /// When two threads were in a critical section at once.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        if let Err(unsupported) = self.lock.prepare() {
            return Ok(Outcome::Unsupported { unsupported });
        }
        let crew = Crew {
            threads: self.threads,
            background: self.background,
            time: Duration::from_millis(self.duration_ms),
            watch: self.workload == Workload::Runnable,
        };
        let before = preemptions();
        let (done, lost) = match self.workload {
            Workload::SharedMemory | Workload::Runnable => {
                self.lock.with(SharedMemory { crew, between: BETWEEN })
            }
            Workload::Fairness(between) => self.lock.with(SharedMemory { crew, between }),
            Workload::HashTable => {
                self.lock.with(HashTable { crew, shift_every: 10_000 * cycles_per_us() })
            }
            program => return self.program(program),
        };
        if lost != 0 {
            bail!("{} lost {lost} of {} critical sections", self.lock.name(), done.total());
        }
        let preempted = (preemptions() - before) as f64 / done.took.as_secs_f64();
        let sample = sample(&done);
        Ok(match self.lock {
            Kind::Quaver | Kind::QuaverEach | Kind::QuaverSlice => {
                sample.with("preempted_per_s", preempted)
            }
            _ => sample,
        }
        .into())
    }
}

impl Spec {
    fn program(&self, program: Workload) -> anyhow::Result<Outcome> {
        let scale = self.duration_ms as f64 / 1000.0;
        let size = Size { threads: self.threads, background: self.background, scale };
        // Few locks are no index; but a look must not fill the memory.
        let share = |full: usize| if scale < 0.5 { full / 64 } else { full };
        let Ran { ops, took, wrong } = match program {
            Workload::Index => self.lock.with(Index { size, leaves: share(index::LEAVES) }),
            Workload::Dedup => self.lock.with(Dedup { size, buckets: share(dedup::BUCKETS) }),
            Workload::Raytrace => self.lock.with(Raytrace { size }),
            _ => self.lock.with(Streamcluster { size }),
        };
        if let Some(wrong) = wrong {
            bail!("{} with {}: {wrong}", program.name(), self.lock.name());
        }
        let wall_ns = u64::try_from(took.as_nanos())?;
        let rate = ops as f64 / took.as_secs_f64();
        Ok(Sample { ops, wall_ns, ..Sample::default() }.with(OPS, rate).into())
    }
}

/// What watches switches while a crowd switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watched {
    /// Nothing.
    Nobody,
    /// A monitor that does not know this process.
    Stranger,
    /// A monitor of this process.
    Known,
    /// The same, and each thread holds a lock.
    Holding,
}

impl Watched {
    /// All, the reference first.
    pub const ALL: [Watched; 4] =
        [Watched::Nobody, Watched::Stranger, Watched::Known, Watched::Holding];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Watched::Nobody => "no monitor",
            Watched::Stranger => "quaver, another process's monitor",
            Watched::Known => "quaver, monitored",
            Watched::Holding => "quaver, monitored, locks held",
        }
    }
}

/// What the monitor costs switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Overhead {
    /// What watches.
    pub watched: Watched,
    /// Pairs of threads.
    pub pairs: usize,
    /// Messages of each pair.
    pub messages: u64,
}

impl Overhead {
    /// Measures, in this process.
    ///
    /// # Errors
    ///
    /// When there are no more sockets or threads.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        let mut stranger = None;
        let ready = match self.watched {
            Watched::Nobody if monitor::lockd_answers() => Err("a lockd runs".to_owned()),
            Watched::Nobody => Ok(()),
            Watched::Stranger => {
                monitor::Host::load().map(|host| stranger = Some(host)).map_err(|e| e.to_string())
            }
            Watched::Known | Watched::Holding => Kind::Quaver.prepare(),
        };
        if let Err(unsupported) = ready {
            return Ok(Outcome::Unsupported { unsupported });
        }
        let holding = self.watched == Watched::Holding;
        let took = Crowd { pairs: self.pairs, messages: self.messages, holding }.run()?;
        drop(stranger);
        let wall_ns = u64::try_from(took.wall.as_nanos())?;
        let per_switch = |time: Duration| time.as_nanos() as f64 / took.switches as f64;
        let sample = Sample { ops: took.messages, wall_ns, ..Sample::default() };
        let sample = sample
            .with(OPS, took.messages as f64 / took.wall.as_secs_f64())
            .with("cpu_ns_per_switch", per_switch(took.cpu))
            .with("switches", took.switches as f64);
        Ok(sample.into())
    }
}

fn preemptions() -> u64 {
    monitor::counts().map_or(0, |counts| counts.preempted)
}

/// The numbers of a measurement, by name.
fn sample(done: &Done) -> Sample {
    let (ops, seconds) = (done.total(), done.took.as_secs_f64());
    let wall_ns = u64::try_from(done.took.as_nanos()).unwrap_or(u64::MAX);
    let mut sample = Sample { ops, wall_ns, ..Sample::default() }
        .with(OPS, ops as f64 / seconds)
        .with("spins_per_op", done.spins as f64 / ops as f64)
        .with("voluntary_switches_per_s", done.switches[0] as f64 / seconds)
        .with("involuntary_switches_per_s", done.switches[1] as f64 / seconds)
        .with("max_ns", done.latency.max() as f64 / done.cycles_per_ns);
    for (name, quantile) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
        let value = done.latency.value_at_quantile(quantile);
        sample = sample.with(name, value as f64 / done.cycles_per_ns);
    }
    if let Some(fairness) = done.fairness() {
        sample = sample.with("fairness", fairness);
    }
    if let Some(runnable) = done.runnable {
        sample = sample
            .with("runnable_min", runnable.min)
            .with("runnable_mean", runnable.mean)
            .with("runnable_max", runnable.max);
    }
    sample
}
