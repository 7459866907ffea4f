//! How long a plain best-effort program goes on after the broker's decision to freeze it, until its
//! last instruction: it keeps writing the time into a page, and the last one written counts.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use quaver_bench_common::affinity::pin;
use quaver_bench_common::{Outcome, Sample};
use quaver_share::broker::Freezer;
use quaver_share::class::Class;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::page::Page;
use super::run::{Running, command};
use super::{percentile_row, percentile_us};
use crate::bench::child::Work;
use crate::bench::context::{Context, Task};
use crate::bench::plan::{Group, Plan};
use crate::process;

const ROW: &str = "frozen after the decision";
/// A program that has written the time so many nanoseconds ago is running.
const RUNS: u64 = 5_000;
/// No freezing takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FrozenSpec {
    /// The program's.
    cpu: usize,
    /// Where who decides runs.
    broker: usize,
    /// Where it writes.
    page: PathBuf,
    rounds: u32,
    /// It is the program.
    program: bool,
}

/// The job, or why there is none.
///
/// # Errors
///
/// There is no place for temporary files.
pub fn add(context: &Context, plan: &mut Plan) -> anyhow::Result<()> {
    if let Err(error) = Freezer::new(0) {
        plan.notes
            .push(format!("share {ROW}: left out: no cgroup v2 that can be written: {error}"));
        return Ok(());
    }
    let Some(broker) = context.place.helper else {
        plan.notes.push(format!("share {ROW}: left out: it takes a second CPU, for the broker"));
        return Ok(());
    };
    let page = context.folder()?.join("frozen");
    let rounds = context.effort.pick(200, 2_000);
    let spec = FrozenSpec { cpu: context.place.worker, broker, page, rounds, program: false };
    let reading = |what| percentile_row(ROW, what);
    let readings = vec![reading("p50"), reading("p99")];
    let expected = Duration::from_millis(20) * rounds;
    let task = Task { cpus: context.place.both(), expected, readings };
    let job = task.job("cgroup freezer", context.child(&Work::ShareFrozen(spec)));
    plan.groups.push(Group { title: format!("share {ROW}"), jobs: vec![job] });
    Ok(())
}

/// Measures, or is the program until it is killed.
///
/// # Errors
///
/// The program cannot be started or frozen.
pub fn run(spec: &FrozenSpec) -> anyhow::Result<Outcome> {
    if spec.program {
        pin(&[spec.cpu])?;
        // As every plain program is.
        Class::Idle.set(0)?;
        let page = Page::open(&spec.page)?;
        page.add(now_ns());
        page.begin(1.0);
        loop {
            page.add(now_ns() - page.turns());
        }
    }
    pin(&[spec.broker])?;
    let page = Page::create(&spec.page)?;
    let work = Work::ShareFrozen(FrozenSpec { program: true, ..spec.clone() });
    let work = serde_json::to_string(&work).expect("work is valid JSON");
    let mut command = command(&["bench", "--child", &work])?;
    let mut program = Running(process::spawn(&mut command, &[spec.cpu])?);
    page.begun(|| program.is_alive())?;
    let pid = program.0.id() as i32;
    let mut took = Vec::new();
    // The broker has it from the first time on.
    let mut freezer = Freezer::new(pid)?;
    for _ in 0..spec.rounds {
        let asked = now_ns();
        while now_ns().saturating_sub(page.turns()) > RUNS {
            let passed = Duration::from_nanos(now_ns() - asked);
            ensure!(passed < PATIENCE, "the program does not run");
            std::hint::spin_loop();
        }
        let decided = now_ns();
        freezer.freeze(&[pid])?;
        until("it is frozen", decided, || freezer.is_complete())?;
        let last = page.turns();
        freezer.thaw();
        took.push(last.saturating_sub(decided));
        until("it goes on", now_ns(), || page.turns() > last)?;
    }
    took.sort_unstable();
    let us = |part| percentile_us(&took, part);
    let sample = Sample { ops: u64::from(spec.rounds), ..Sample::default() };
    Ok(sample.with("p50_us", us(0.5)).with("p99_us", us(0.99)).with("max_us", us(1.0)).into())
}

fn until(what: &str, since: u64, mut happens: impl FnMut() -> bool) -> anyhow::Result<()> {
    while !happens() {
        let passed = Duration::from_nanos(now_ns().saturating_sub(since));
        ensure!(passed < PATIENCE, "not after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// The time, the same for all processes.
fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
