//! One measurement: baseline, preempted, baseline.

use std::time::Duration;

use anyhow::{bail, ensure};
use quaver_bench_common::clock::{monotonic_ns, process_cpu_ns, thread_cpu_ns};
use quaver_bench_common::compute::Loop;
use quaver_bench_common::{Outcome, Sample};

use super::{Mechanism, PreemptSpec, bare, naive, ours};
use quaver_bench_common::affinity::on_cpu;

/// Metric: how much longer the work took, in percent.
pub const SLOWDOWN_PERCENT: &str = "slowdown_percent";
/// Metric: CPU time of one event.
pub const NS_PER_EVENT: &str = "ns_per_event";
/// Metric: CPU time of other threads, in percent of the time on the wall.
pub const CLOCK_PERCENT: &str = "clock_percent";

/// When the work takes that many times as long as without preemption, it makes no progress.
const LIVELOCK: u32 = 30;

/// The work of one of the two threads.
#[derive(Clone, Copy, Debug)]
pub struct Hog {
    work: Loop,
    iterations: u64,
}

impl Hog {
    /// Does the work; `which` is 0 or 1.
    pub fn compute(self, which: usize) -> u64 {
        self.work.run(which as u64 + 1, self.iterations)
    }

    /// A hog that computes for about `time`; measured in CPU time, because others may use the
    /// machine.
    fn lasting(work: Loop, time: Duration) -> Self {
        let mut hog = Self { work, iterations: 1000 };
        loop {
            let start = thread_cpu_ns();
            std::hint::black_box(hog.compute(0));
            let took = Duration::from_nanos(thread_cpu_ns() - start);
            if took >= time / 4 {
                hog.iterations = (hog.iterations as f64 * time.div_duration_f64(took)) as u64;
                return hog;
            }
            hog.iterations *= 2;
        }
    }
}

/// What both hogs computed, and how many events there were meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The results of hog 0 and hog 1.
    pub results: [u64; 2],
    /// Preemptions, or handler runs.
    pub events: u64,
    /// The time it took.
    pub took: Took,
}

/// Times from the start of the first hog to the end of the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Took {
    /// CPU time of the kernel thread that ran the hogs, in ns.
    pub worker_ns: u64,
    /// CPU time of all other threads of the process, in ns.
    pub others_ns: u64,
    /// Time on the wall, in ns.
    pub wall_ns: u64,
}

/// Runs `body` and takes the time; the calling kernel thread is the worker.
///
/// # Errors
///
/// When `body` comes back on another kernel thread: its CPU time says nothing then.
pub fn timed<T>(body: impl FnOnce() -> T) -> anyhow::Result<(T, Took)> {
    let thread = rustix::thread::gettid();
    let (wall, process, worker) = (monotonic_ns(), process_cpu_ns(), thread_cpu_ns());
    let value = body();
    let worker_ns = thread_cpu_ns().saturating_sub(worker);
    let others_ns = (process_cpu_ns() - process).saturating_sub(worker_ns);
    let wall_ns = monotonic_ns() - wall;
    ensure!(rustix::thread::gettid() == thread, "the worker changed its kernel thread");
    Ok((value, Took { worker_ns, others_ns, wall_ns }))
}

/// Measures.
///
/// # Errors
///
/// When the mechanism cannot be set up. Ends the process when a result is wrong.
pub fn run(spec: &PreemptSpec) -> anyhow::Result<Outcome> {
    let quantum = Duration::from_micros(spec.quantum_us);
    let time = Duration::from_millis(spec.work_ms);
    let hog = on_cpu("worker", spec.worker_cpu, || Ok(Hog::lasting(spec.work, time / 2)))?;
    let baseline = || on_cpu("worker", spec.worker_cpu, || plain(hog));
    let before = baseline()?;
    give_up_after(LIVELOCK * Duration::from_nanos(before.took.wall_ns));
    let done = match &spec.mechanism {
        Mechanism::Ours(settings) => ours::run(settings, hog)?,
        Mechanism::Empty(source) => {
            on_cpu("worker", spec.worker_cpu, || bare::run(hog, *source, quantum, spec.helper_cpu))?
        }
        Mechanism::Naive(source) => on_cpu("worker", spec.worker_cpu, || {
            naive::run(hog, *source, quantum, spec.helper_cpu)
        })?,
    };
    let after = baseline()?;
    if [done.results, after.results] != [before.results; 2] {
        // A wrong result is worse than none: the whole command fails.
        eprintln!(
            "preempted threads computed {:x?} instead of {:x?}: their registers were not restored",
            done.results, before.results
        );
        std::process::exit(1);
    }
    evaluate(&before, &done, &after)
}

fn plain(hog: Hog) -> anyhow::Result<Done> {
    let (results, took) = timed(|| [hog.compute(0), hog.compute(1)])?;
    Ok(Done { results, events: 0, took })
}

fn evaluate(before: &Done, done: &Done, after: &Done) -> anyhow::Result<Outcome> {
    if done.events == 0 {
        bail!("nothing was preempted in {:?}", Duration::from_nanos(done.took.wall_ns));
    }
    let alone = (before.took.worker_ns + after.took.worker_ns) as f64 / 2.0;
    let more = done.took.worker_ns as f64 - alone;
    let percent = |part: f64, whole: f64| 100.0 * part / whole;
    let sample = Sample {
        ops: done.events,
        cpu_ns: done.took.worker_ns,
        wall_ns: done.took.wall_ns,
        ..Sample::default()
    };
    Ok(sample
        .with(SLOWDOWN_PERCENT, percent(more, alone))
        .with(NS_PER_EVENT, more / done.events as f64)
        .with(CLOCK_PERCENT, percent(done.took.others_ns as f64, done.took.wall_ns as f64))
        .with("baseline_ns", alone)
        .into())
}

/// Ends the process with an answer that says why, `limit` from now, unless it has ended before.
fn give_up_after(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        let why = format!("no end in sight after {limit:?}, {LIVELOCK} times the baseline");
        Outcome::failed(format!("{why}: the events leave no time for the work")).print();
        // The worker may be in any state: no destructors.
        std::process::exit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(worker_ns: u64, events: u64) -> Done {
        let took = Took { worker_ns, others_ns: 300, wall_ns: 1200 };
        Done { results: [1, 2], events, took }
    }

    #[test]
    fn cost_is_what_the_events_add() {
        let outcome = evaluate(&done(900, 0), &done(1500, 10), &done(1100, 0)).unwrap();
        let Outcome::Sample(sample) = outcome else { panic!("{outcome:?}") };
        assert_eq!(sample.metrics[SLOWDOWN_PERCENT], 50.0);
        assert_eq!(sample.metrics[NS_PER_EVENT], 50.0);
        assert_eq!(sample.metrics[CLOCK_PERCENT], 25.0);
        assert_eq!(sample.ops, 10);
    }

    #[test]
    fn no_event_is_an_error() {
        assert!(evaluate(&done(1, 0), &done(1, 0), &done(1, 0)).is_err());
    }

    #[test]
    fn the_two_hogs_compute_different_things() {
        let hog = Hog { work: Loop::Scalar, iterations: 10 };
        assert_ne!(hog.compute(0), hog.compute(1));
    }
}
