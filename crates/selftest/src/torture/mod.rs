//! Runs code that nobody here wrote under quanta that nobody would choose, and compares its answers
//! with those of an undisturbed run: libraries in this process, and unmodified [programs](shimmed)
//! in processes of their own.

mod programs;
mod rocksdb;
mod rounds;
pub mod shimmed;

use crate::outcome::{Counts, Outcome};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use quaver::{Builder, Runtime, Stats, inspect};
use quaver_sched::random::splitmix64;
use rounds::Rounds;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Which program to torture, and how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The program's name.
    pub program: String,
    /// How many workers.
    pub workers: usize,
    /// When to stop.
    pub seconds: f64,
    /// When to stop earlier.
    pub preemptions: u64,
    /// Chooses data, quanta and order.
    pub seed: u64,
    /// The command `quaver`, for programs that run by `quaver run`; they are skipped without it.
    pub quaver: Option<PathBuf>,
}

/// Told now and then what has been counted so far.
pub type Report<'a> = &'a mut dyn FnMut(&Counts);

/// Something that computes answers.
trait Program: Sync {
    /// The answer of step `i`; the same each time, whatever else goes on.
    fn step(&self, i: u64) -> u64;
}

/// Prepares a program for data that depend on a seed. The error says why it cannot run here.
type Prepare = fn(u64) -> Result<Box<dyn Program>, String>;

/// The programs' names. Those of packages first: how often they are preempted is up to them, and
/// those that follow can make up for it.
pub fn names() -> Vec<&'static str> {
    shimmed::names().into_iter().chain(table().into_iter().map(|(name, _)| name)).collect()
}

fn table() -> Vec<(&'static str, Prepare)> {
    let mut all = programs::ALL.to_vec();
    all.push(("rocksdb", rocksdb::prepare));
    all
}

/// Steps with answers of their own.
const STEPS: u64 = 24;
/// User threads for each worker.
const THREADS: usize = 4;
/// How long a runtime lives before another, with another quantum, takes its place.
const ROUND: Duration = Duration::from_millis(400);

/// Does the job, in this process or one that it starts. It must not have had a runtime before.
pub fn run(job: &Job, report: Report<'_>) -> Outcome {
    let mut outcome = Outcome::new(&job.program, job.workers);
    if shimmed::is_one(&job.program) {
        shimmed::run(job, &mut outcome, report);
        return outcome;
    }
    let found = table().into_iter().find(|(name, _)| *name == job.program);
    let Some((_, prepare)) = found else {
        outcome.differ(format!("there is no program {}", job.program), String::new());
        return outcome;
    };
    match prepare(job.seed) {
        Ok(program) => torture(&*program, job, &mut outcome, report),
        Err(why) => outcome.skipped = Some(why),
    }
    outcome
}

fn torture(program: &dyn Program, job: &Job, outcome: &mut Outcome, report: Report<'_>) {
    let expected: Vec<u64> = (0..STEPS).map(|i| program.step(i)).collect();
    if (0..STEPS).any(|i| program.step(i) != expected[i as usize]) {
        outcome.skipped = Some("its answers differ from run to run without preemption, too".into());
        return;
    }
    let mut rounds = Rounds::new(job);
    while let Some(setting) = rounds.next(outcome) {
        let built = Builder::new()
            .workers(job.workers)
            .clock(setting.clock)
            .policy_str(setting.policy)
            .quantum(Some(setting.quantum))
            .max_deferral(setting.max_deferral)
            .build();
        let rt = match built {
            Ok(rt) => rt,
            Err(e) => {
                outcome.differ(format!("no runtime with {setting}: {e}"), String::new());
                break;
            }
        };
        let until = rounds.end.min(Instant::now() + ROUND);
        let seed = rounds.seed();
        let round = one_round(&rt, program, &expected, job, until, seed, &rounds.sum);
        let stats = rt.stats();
        let sum = &mut rounds.sum;
        sum.preemptions += stats.preempt_useful;
        sum.deferred += stats.preempt_deferred;
        sum.handed_over += stats.handovers;
        sum.migrations += stats.preempt_migrated;
        sum.steps += round.steps;
        sum.runs += 1;
        for what in round.wrong {
            outcome.differ(format!("{what}; {setting}"), reproducer(job));
        }
        account(&stats, &rt, job, outcome);
        report(&rounds.sum);
    }
    rounds.finish(outcome);
}

fn reproducer(job: &Job) -> String {
    format!(
        "quaver selftest torture --only {} --workers {} --seed {} --seconds {}",
        job.program, job.workers, job.seed, job.seconds
    )
}

/// Every thread that was started has ended.
fn account(stats: &Stats, rt: &Runtime, job: &Job, outcome: &mut Outcome) {
    if stats.spawned != stats.completed || inspect::waiting() != 0 {
        let waiting = inspect::waiting();
        let what = format!("threads are lost: {:?}, {waiting} in queues", rt.stats());
        outcome.differ(what, reproducer(job));
    }
}

struct Round {
    steps: u64,
    wrong: Vec<String>,
}

fn one_round(
    rt: &Runtime,
    program: &dyn Program,
    expected: &[u64],
    job: &Job,
    until: Instant,
    seed: u64,
    sum: &Counts,
) -> Round {
    let (steps, stop, wrong) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(Vec::new()));
    let before = rt.stats().preempt_useful;
    rt.run(|| {
        quaver::scope(|s| {
            for thread in 0..(THREADS * job.workers) as u64 {
                let (steps, stop, wrong) = (&steps, &stop, &wrong);
                s.spawn(move || {
                    let mut rng = Rng(seed ^ thread << 32);
                    while !stop.load(Relaxed) {
                        let i = rng.below(STEPS);
                        let found = program.step(i);
                        steps.fetch_add(1, Relaxed);
                        if found != expected[i as usize] {
                            let want = expected[i as usize];
                            let text = format!("step {i}: {found:#x} in place of {want:#x}");
                            wrong.lock().unwrap_or_else(|e| e.into_inner()).push(text);
                            stop.store(true, Relaxed);
                        }
                        let done = rt.stats().preempt_useful - before + sum.preemptions;
                        if Instant::now() >= until || done >= job.preemptions {
                            stop.store(true, Relaxed);
                        }
                    }
                });
            }
        });
    });
    while rt.stats().completed < rt.stats().spawned {
        std::thread::yield_now();
    }
    let wrong = wrong.into_inner().unwrap_or_else(|e| e.into_inner());
    Round { steps: steps.into_inner(), wrong }
}

/// The same numbers everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Text-like bytes: words of a small vocabulary.
    fn text(&mut self, bytes: usize) -> Vec<u8> {
        const WORDS: [&str; 12] = [
            "quantum",
            "worker",
            "thread",
            "queue",
            "a",
            "of",
            "preempted",
            "42",
            "user",
            "the",
            "signal",
            "\n",
        ];
        let mut text = Vec::with_capacity(bytes + 16);
        while text.len() < bytes {
            text.extend_from_slice(WORDS[self.below(12) as usize].as_bytes());
            text.push(if self.below(9) == 0 { b'0' + self.below(10) as u8 } else { b' ' });
        }
        text.truncate(bytes);
        text
    }
}

/// FNV-1a: a digest that needs no library under test.
fn digest(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_depend_on_the_seed_only() {
        assert_eq!(Rng(3).text(100), Rng(3).text(100));
        assert_ne!(digest(&Rng(3).text(100)), digest(&Rng(4).text(100)));
    }
}
