//! One measurement: baseline, preempted, baseline.

use std::time::Duration;

use anyhow::ensure;
use quaver_bench_common::clock::{monotonic_ns, process_cpu_ns, thread_cpu_ns};
use quaver_bench_common::{Outcome, Sample};

use super::crew::Crew;
use super::{Mechanism, PreemptSpec, bare, naive, ours};
use quaver_bench_common::affinity::on_cpu;

/// Metric: how much longer the work took, in percent.
pub const SLOWDOWN_PERCENT: &str = "slowdown_percent";
/// Metric: CPU time of one event.
pub const NS_PER_EVENT: &str = "ns_per_event";
/// Metric: CPU time of other threads, in percent of the time on the wall.
pub const CLOCK_PERCENT: &str = "clock_percent";

/// Metric: CPU time of one event of the empty handler, for comparison.
pub const HANDLER_NS: &str = "handler_ns_per_event";
/// Metric: what is left of the CPU time of one event: dispatch, switch, caches.
pub const SWITCH_NS: &str = "switch_ns_per_event";

/// When the work takes that many times as long as without preemption, it makes no progress.
const LIVELOCK: u32 = 30;

/// What the threads computed, and how many events there were meanwhile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The result of each.
    pub results: Vec<u64>,
    /// Preemptions, or handler runs.
    pub events: u64,
    /// The time it took.
    pub took: Took,
}

/// Times from the start of the first thread to the end of the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Took {
    /// CPU time of the kernel thread that ran them, in ns.
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
    let time = Duration::from_millis(spec.work_ms);
    let crew = on_cpu("worker", spec.worker_cpu, || Crew::lasting(&spec.mix, time))?;
    // For as long as the process lasts, which measures once: contexts that are left behind in
    // signal handlers refer to it.
    let crew: &'static Crew = Box::leak(Box::new(crew));
    let baseline = || on_cpu("worker", spec.worker_cpu, || plain(crew));
    let before = baseline()?;
    give_up_after(LIVELOCK * Duration::from_nanos(before.took.wall_ns));
    let done = preempted(spec, &spec.mechanism, crew)?;
    let told = spec.split.map(|source| preempted(spec, &Mechanism::Empty(source), crew));
    let told = told.transpose()?;
    let after = baseline()?;
    let all = [Some(&done), told.as_ref(), Some(&after)];
    if let Some(wrong) = all.into_iter().flatten().find(|done| done.results != before.results) {
        // A wrong result is worse than none: the whole command fails.
        eprintln!(
            "preempted threads computed {:x?} instead of {:x?}: their registers were not restored",
            wrong.results, before.results
        );
        std::process::exit(1);
    }
    evaluate(&before, &done, told.as_ref(), &after)
}

fn preempted(
    spec: &PreemptSpec,
    mechanism: &Mechanism,
    crew: &'static Crew,
) -> anyhow::Result<Done> {
    let quantum = Duration::from_micros(spec.quantum_us);
    let (worker, helper) = (spec.worker_cpu, spec.helper_cpu);
    match mechanism {
        Mechanism::Ours(settings) => ours::run(settings, crew),
        Mechanism::Empty(source) => {
            on_cpu("worker", worker, || bare::run(crew, *source, quantum, helper))
        }
        Mechanism::Naive(source) => {
            on_cpu("worker", worker, || naive::run(crew, *source, quantum, helper))
        }
    }
}

fn plain(crew: &Crew) -> anyhow::Result<Done> {
    let (results, took) = timed(|| crew.compute_all())?;
    Ok(Done { results, events: 0, took })
}

/// `told`: the same work interrupted by the empty handler.
fn evaluate(
    before: &Done,
    done: &Done,
    told: Option<&Done>,
    after: &Done,
) -> anyhow::Result<Outcome> {
    let alone = (before.took.worker_ns + after.took.worker_ns) as f64 / 2.0;
    let more = |done: &Done| done.took.worker_ns as f64 - alone;
    let each = |done: &Done| {
        let took = Duration::from_nanos(done.took.wall_ns);
        ensure!(done.events > 0, "nothing was preempted in {took:?}");
        Ok(more(done) / done.events as f64)
    };
    let percent = |part: f64, whole: f64| 100.0 * part / whole;
    let cost = each(done)?;
    let mut sample = Sample {
        ops: done.events,
        cpu_ns: done.took.worker_ns,
        wall_ns: done.took.wall_ns,
        ..Sample::default()
    };
    if let Some(told) = told {
        let handler = each(told)?;
        sample = sample.with(HANDLER_NS, handler).with(SWITCH_NS, cost - handler);
    }
    Ok(sample
        .with(SLOWDOWN_PERCENT, percent(more(done), alone))
        .with(NS_PER_EVENT, cost)
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
        Done { results: vec![1, 2], events, took }
    }

    #[test]
    fn cost_is_what_the_events_add() {
        let (before, after) = (done(900, 0), done(1100, 0));
        let told = done(1400, 20);
        let outcome = evaluate(&before, &done(1500, 10), Some(&told), &after).unwrap();
        let Outcome::Sample(sample) = outcome else { panic!("{outcome:?}") };
        assert_eq!(sample.metrics[SLOWDOWN_PERCENT], 50.0);
        assert_eq!(sample.metrics[NS_PER_EVENT], 50.0);
        assert_eq!(sample.metrics[CLOCK_PERCENT], 25.0);
        assert_eq!(sample.metrics[HANDLER_NS], 20.0);
        assert_eq!(sample.metrics[SWITCH_NS], 30.0);
        assert_eq!(sample.ops, 10);
    }

    #[test]
    fn no_event_is_an_error() {
        assert!(evaluate(&done(1, 0), &done(1, 0), None, &done(1, 0)).is_err());
        assert!(evaluate(&done(1, 0), &done(1, 1), Some(&done(1, 0)), &done(1, 0)).is_err());
    }
}
