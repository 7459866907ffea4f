//! `quaver bench lock`: threads that contend for locks, by lock and number of threads. (FlexGuard
//! 5.)
//!
//! The locks and what threads do with them are in the crate `quaver-bench-locks`; here is what is
//! measured, and what it is compared with: the C library's mutex in the same round, and the better
//! of it and a lock of nothing but `futex`.

mod leveldb;
mod programs;
mod server;

use std::time::Duration;

use anyhow::bail;
use quaver_bench_common::Outcome;
use quaver_bench_locks::Kind;
use quaver_bench_locks::measure::{OPS, Overhead, Spec, Watched, Workload};
use serde::{Deserialize, Serialize};

use super::child;
use super::context::{Context, Task};
use super::harness::Log;
use super::plan::{Aim, Bound, Group, Job, Pick, Plan, Reading};
use super::stats::{Summary, median_interval, paired_ratios};
use crate::parse::duration;

pub use server::Server;

/// What ours is compared with.
const OTHERS: [&str; 2] = ["pthread", "futex"];
/// What the ratio to the better of them should be. (Its lower bound should be 0.90.)
const AIM: Bound = Bound::AtLeast(0.95);
/// Cycles between two sections, for fairness. (Figure 5b.)
const BETWEEN: [u64; 3] = [100, 1000, 10_000];

/// What of `lock` is measured.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Choice {
    /// Of `lock`: only these locks, by their full names: pthread, futex, quaver, ...
    #[arg(long, value_name = "LOCK", value_delimiter = ',')]
    locks: Vec<String>,
    /// Of `lock`: only these workloads: shared-memory, hash-table, fairness, runnable, index,
    /// dedup, raytrace, streamcluster, overhead, programs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Of `lock`: how many threads contend [default: 1,2,4,8,16,32,64]
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Vec<u16>,
    /// Of `lock`: how many threads compute beside them [default: 0, and one for each CPU]
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(..=4096))]
    background: Vec<u16>,
    /// Of `lock`: for how long each lock is used, 10ms to 1m [default: 500ms, small programs 1s;
    /// with --quick 40ms and 10ms]
    #[arg(long, value_name = "TIME", value_parser = duration::within(SHORTEST..=LONGEST))]
    duration: Option<Duration>,
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_mins(1);

/// All workloads; the first two are the core.
const WORKLOADS: [&str; 10] = [
    "shared-memory",
    "hash-table",
    "fairness",
    "runnable",
    "index",
    "dedup",
    "raytrace",
    "streamcluster",
    "overhead",
    "programs",
];

/// What a row is about, for programs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct About {
    /// What the threads do.
    pub workload: &'static str,
    /// How many contend.
    pub threads: usize,
    /// For which lock.
    pub lock: &'static str,
    /// How many threads compute beside them.
    pub background: usize,
    /// Of `fairness`: cycles between two sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<u64>,
}

/// The numbers of a row, under the names that programs look for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Labelled {
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// Median: operations a second, of all threads.
    pub ops_per_s: f64,
    /// Median over rounds: this by that of the C library's mutex in the same round.
    pub ratio_to_pthread: Option<f64>,
    /// Beside the better of two.
    #[serde(flatten)]
    pub better: Option<Better>,
}

/// A lock beside the better of pthread and futex: the one with the higher median.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Better {
    /// Which one that is.
    pub better: String,
    /// Median over rounds of this by that in the same round.
    pub ratio_to_better: f64,
    /// Where the median of these ratios lies, with a probability of 95 %.
    pub ratio_to_better_interval: Option<[f64; 2]>,
}

impl Choice {
    /// Where everything else is measured, too: the core.
    pub fn in_passing() -> Choice {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Choice {
            locks: names(&["pthread", "futex", "spin-park", "mcs", "quaver unmonitored", "quaver"]),
            workloads: names(&["shared-memory", "hash-table", "overhead"]),
            threads: vec![1, 2, 4, 8, 16, 32],
            background: vec![0],
            duration: None,
        }
    }
}

impl Better {
    /// Of a lock's `values`; `None` where neither was measured.
    pub fn of(values: &[Option<f64>], metric: &str, group: &Group, logs: &[Log]) -> Option<Self> {
        let jobs = group.jobs.iter().zip(logs);
        let others = jobs.filter(|(job, _)| OTHERS.contains(&job.implementation.as_str()));
        let median = |(job, log): (&Job, &Log)| {
            let values = log.values(metric);
            let numbers: Vec<f64> = values.iter().copied().flatten().collect();
            Some((Summary::of(&numbers)?.median, job.implementation.clone(), values))
        };
        let (_, better, reference) =
            others.filter_map(median).max_by(|a, b| a.0.total_cmp(&b.0))?;
        let ratios = paired_ratios(values, &reference);
        let ratio_to_better = Summary::of(&ratios)?.median;
        let ratio_to_better_interval = median_interval(&ratios);
        Some(Self { better, ratio_to_better, ratio_to_better_interval })
    }
}

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A lock under a workload.
    Lock(Spec),
    /// What the monitor costs switches.
    Overhead(Overhead),
    /// A program of others.
    Program(programs::Run),
}

/// The jobs of this benchmark.
///
/// # Errors
///
/// When there is no such lock or workload, or nothing is left.
pub fn plan(context: &Context, choice: &Choice) -> anyhow::Result<Plan> {
    let all = Kind::ALL.map(Kind::name);
    for (name, known, what) in
        [(&choice.locks, &all[..], "lock"), (&choice.workloads, &WORKLOADS[..], "workload")]
    {
        if let Some(name) = name.iter().find(|name| !known.contains(&name.as_str())) {
            bail!("there is no {what} {name}; there are: {}", known.join(", "));
        }
    }
    let cpus = context.place.all.len();
    let mut plan = Plan::default();
    plan.notes.push(format!("lock: all threads on {cpus} CPUs, from the beginning"));
    plan.notes.push(
        "lock: ratios are to pthread in the same round, aims to the better of pthread \
                     and futex by median"
            .into(),
    );
    // Said once, and not with each measurement.
    let slice = match Kind::Slice.prepare() {
        Ok(()) => true,
        Err(why) => {
            plan.notes.push(format!("lock slice, quaver slice: left out: {why}"));
            false
        }
    };
    let builder = Builder { context, choice, cpus, slice };
    let wants =
        |name: &str| choice.workloads.is_empty() || choice.workloads.iter().any(|n| n == name);
    for workload in [Workload::SharedMemory, Workload::HashTable] {
        if wants(workload.name()) {
            for background in builder.backgrounds() {
                let threads = builder.threads(&[1, 2, 4, 8, 16, 32, 64], &[1, 2, 8]);
                let groups =
                    threads.into_iter().map(|threads| builder.group(workload, threads, background));
                plan.groups.extend(groups);
            }
        }
    }
    if wants("fairness") {
        let threads = builder.threads(&[cpus.div_ceil(2), cpus, 2 * cpus], &[2 * cpus]);
        let mut threads: Vec<_> = threads.into_iter().filter(|&threads| threads > 1).collect();
        threads.dedup();
        for threads in threads {
            for between in BETWEEN {
                plan.groups.push(builder.group(Workload::Fairness(between), threads, 0));
            }
        }
    }
    if wants("runnable") {
        // 140 threads on 104 CPUs, in the paper.
        let threads = builder.threads(&[(cpus * 140).div_ceil(104)], &[(cpus * 140).div_ceil(104)]);
        let groups =
            threads.into_iter().map(|threads| builder.group(Workload::Runnable, threads, 0));
        plan.groups.extend(groups);
    }
    for workload in [Workload::Index, Workload::Dedup, Workload::Raytrace, Workload::Streamcluster]
    {
        if wants(workload.name()) {
            for background in builder.backgrounds() {
                let threads = builder.threads(&[2 * cpus], &[2 * cpus]);
                let groups =
                    threads.into_iter().map(|threads| builder.group(workload, threads, background));
                plan.groups.extend(groups);
            }
        }
    }
    if wants("overhead") {
        plan.groups.push(builder.overhead());
    }
    if wants("programs") && !(context.effort.quick && choice.workloads.is_empty()) {
        let (groups, notes) = programs::groups(context, &builder.threads(&[1, 2, 4, 8, 16], &[2]))?;
        plan.groups.extend(groups);
        plan.notes.extend(notes);
    }
    Ok(plan)
}

struct Builder<'a> {
    context: &'a Context,
    choice: &'a Choice,
    cpus: usize,
    /// Whether the kernel has it.
    slice: bool,
}

impl Builder<'_> {
    fn threads(&self, full: &[usize], quick: &[usize]) -> Vec<usize> {
        if self.choice.threads.is_empty() {
            return self.context.effort.pick(quick, full).to_vec();
        }
        self.choice.threads.iter().map(|&threads| threads.into()).collect()
    }

    fn backgrounds(&self) -> Vec<usize> {
        if self.choice.background.is_empty() {
            return vec![0, self.cpus];
        }
        self.choice.background.iter().map(|&threads| threads.into()).collect()
    }

    fn wants(&self, lock: Kind) -> bool {
        if lock.asks_for_slices() && !self.slice {
            return false;
        }
        self.choice.locks.is_empty() || self.choice.locks.iter().any(|name| name == lock.name())
    }

    fn group(&self, workload: Workload, threads: usize, background: usize) -> Group {
        let program = matches!(
            workload,
            Workload::Index | Workload::Dedup | Workload::Raytrace | Workload::Streamcluster
        );
        let default = match program {
            true => self.context.effort.pick(10, 1000),
            false => self.context.effort.pick(40, 500),
        };
        let duration_ms = match self.choice.duration {
            Some(duration) => duration.as_millis().try_into().expect("a minute at most"),
            None => default,
        };
        let (name, beside) = (workload.name(), if background > 0 { " + load" } else { "" });
        let between = match workload {
            Workload::Fairness(between) => Some(between),
            _ => None,
        };
        let gap = between.map(|cycles| format!(" {cycles} cycles")).unwrap_or_default();
        let row = format!("{name}{gap} {threads:2} threads{beside}");
        let locks = Kind::ALL.into_iter().filter(|&lock| self.wants(lock));
        let locks = locks.filter(|&lock| workload.refuses(lock).is_none());
        let jobs = locks.map(|lock| {
            let task = Task {
                cpus: self.context.place.all.clone(),
                // A program may take that much longer with a lock that collapses.
                expected: Duration::from_millis(duration_ms * if program { 4 } else { 1 }),
                readings: vec![Reading::new(row.clone(), OPS, "ops/s")],
            };
            let spec = Spec { workload, lock, threads, background, duration_ms };
            let work = child::Work::Lock(Work::Lock(spec));
            let mut job = task.job(lock.name(), self.context.child(&work));
            job.about =
                Some(About { workload: name, threads, lock: lock.name(), background, between });
            if lock == Kind::Quaver {
                let aim = format!("{row} / the better of pthread, futex");
                let aim = Aim::new(aim, OPS, AIM, &OTHERS);
                job.aims = vec![Aim { pick: Pick::Median, ..aim }];
            }
            job
        });
        Group { title: format!("lock {row}"), jobs: jobs.collect() }
    }

    fn overhead(&self) -> Group {
        let pairs = 16 * self.cpus;
        let messages = self.context.effort.pick(20, 1000);
        let jobs = Watched::ALL.map(|watched| {
            let task = Task {
                cpus: self.context.place.all.clone(),
                expected: Duration::from_secs(5),
                readings: vec![
                    Reading::new("overhead: messages", OPS, "1/s"),
                    Reading::new("overhead: CPU of a switch", "cpu_ns_per_switch", "ns"),
                ],
            };
            let work = child::Work::Lock(Work::Overhead(Overhead { watched, pairs, messages }));
            task.job(watched.name(), self.context.child(&work))
        });
        Group { title: "lock overhead".into(), jobs: jobs.into() }
    }
}

/// Measures.
///
/// # Errors
///
/// When two threads were in the critical section at once, or a program failed.
pub fn run(work: &Work) -> anyhow::Result<Outcome> {
    match work {
        Work::Lock(spec) => spec.run(),
        Work::Overhead(overhead) => overhead.run(),
        Work::Program(run) => run.run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::Peers;
    use crate::bench::place::Place;
    use crate::bench::plan::Effort;

    fn planned(choice: &Choice) -> anyhow::Result<Plan> {
        let peers = Peers { found: Vec::new(), notes: Vec::new() };
        plan(&Context::new(Effort { quick: true }, Place::choose()?, peers)?, choice)
    }

    #[test]
    fn only_what_was_chosen_is_measured() {
        let choice = Choice {
            locks: ["pthread", "quaver"].map(str::to_owned).into(),
            workloads: vec!["hash-table".into()],
            threads: vec![3, 5],
            background: vec![0],
            duration: Some(Duration::from_millis(70)),
        };
        let plan = planned(&choice).unwrap();
        let titles: Vec<_> = plan.groups.iter().map(|group| group.title.as_str()).collect();
        assert_eq!(titles, ["lock hash-table  3 threads", "lock hash-table  5 threads"]);
        for group in &plan.groups {
            let jobs: Vec<_> = group.jobs.iter().map(|job| job.implementation.as_str()).collect();
            assert_eq!(jobs, ["pthread", "quaver"]);
            assert_eq!(group.jobs[1].aims.len(), 1);
            let command = group.jobs[0].command.iter().map(|word| word.to_string_lossy());
            assert!(command.into_iter().any(|word| word.contains("\"duration_ms\":70")));
        }
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let locks = Choice { locks: vec!["ticket".into()], ..Choice::default() };
        let error = planned(&locks).unwrap_err().to_string();
        assert!(error.contains("ticket") && error.contains("mcs-tp"), "{error}");
        let workloads = Choice { workloads: vec!["tree".into()], ..Choice::default() };
        let error = planned(&workloads).unwrap_err().to_string();
        assert!(error.contains("tree") && error.contains("hash-table"), "{error}");
    }

    #[test]
    fn a_look_has_all_locks_and_many_locks_no_accounts() {
        let plan = planned(&Choice::default()).unwrap();
        let of = |start: &str| {
            let group = plan.groups.iter().find(|group| group.title.starts_with(start)).unwrap();
            group.jobs.iter().map(|job| job.implementation.as_str()).collect::<Vec<_>>()
        };
        let slice = Kind::Slice.prepare().is_ok();
        let here = Kind::ALL.into_iter().filter(|kind| slice || !kind.asks_for_slices());
        assert_eq!(of("lock shared-memory"), here.map(Kind::name).collect::<Vec<_>>());
        assert!(!of("lock index").contains(&"u-scl"));
        assert_eq!(of("lock overhead").len(), 4);
    }
}
