//! `quaver bench shim`: how much longer unmodified programs take on user threads than natively.
//!
//! The programs are those of `quaver selftest torture` that come from packages (see [`shimmed`]).
//! For each number of CPUs a group: the program natively on so many CPUs, and with as many workers
//! on the same CPUs, with preemption off and at 50, 20 and 5 µs. Time is time on the wall, from the
//! start of the first process to the end of the last one.
//!
//! The clock is the timer thread, on the workers' CPUs. At 5 µs it would take all of them; so
//! there, one worker gets a timer core if there is a second CPU, and with two workers the number of
//! preemptions tells how much was kept.
//!
//! The policy is `ws`, under which every quantum counts: the default gives those that were
//! preempted five times as long.

use std::time::Duration;

use quaver::Clock;
use quaver_bench_common::{Outcome, Sample};
use quaver_selftest::torture::shimmed::{self, Prepared, launch::UserThreads};
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};

/// Metrics: time on the wall, and how often threads were preempted.
const SECONDS: &str = "seconds";
const PREEMPTIONS: &str = "preemptions";

/// None: `off`.
const QUANTA_US: [Option<u64>; 4] = [None, Some(50), Some(20), Some(5)];

/// What they take at most, on a machine that is not busy with other things.
const EXPECTED: Duration = Duration::from_secs(20);

/// One run of a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShimSpec {
    /// Which.
    program: String,
    /// None: natively.
    user_threads: Option<Settings>,
}

/// How `quaver run` is called.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Settings {
    /// One worker on each.
    cpus: Vec<usize>,
    quantum_us: Option<u64>,
    timer_core: bool,
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let mut notes = vec!["shim: time on the wall, policy ws".into()];
    let mut installed = Vec::new();
    for name in shimmed::names() {
        match Prepared::new(name, 1) {
            Ok(_) => installed.push(name),
            Err(why) => notes.push(format!("shim: {name} left out: {why}")),
        }
    }
    let cpus = [1, 2].into_iter().filter(|&n| n <= context.place.all.len());
    let groups = cpus
        .flat_map(|n| installed.iter().map(move |name| (n, name)))
        .map(|(n, name)| group(context, name, n))
        .collect();
    Plan { groups, notes }
}

fn group(context: &Context, program: &str, cpus: usize) -> Group {
    let where_to = if cpus == 1 { "1 CPU".into() } else { format!("{cpus} CPUs") };
    let title = format!("{program}, {where_to}");
    let task = Task {
        cpus: context.place.all[..cpus].to_vec(),
        expected: EXPECTED,
        readings: vec![Reading::new(&title, SECONDS, "s")],
    };
    let command = |user_threads| {
        context.child(&Work::Shim(ShimSpec { program: program.into(), user_threads }))
    };
    let mut jobs = vec![task.job("native", command(None))];
    for quantum_us in QUANTA_US {
        let timer_core = quantum_us == Some(5) && cpus < context.place.all.len();
        let settings = Settings { cpus: task.cpus.clone(), quantum_us, timer_core };
        let mut name = "quaver run off".to_owned();
        let mut task = task.clone();
        if let Some(us) = quantum_us {
            name = format!("quaver run {us}us");
            task.readings.push(Reading::new(format!("{title}: preemptions"), PREEMPTIONS, ""));
        }
        if timer_core {
            name += " timer-core";
            task.cpus = context.place.all.clone();
        }
        jobs.push(task.job(name, command(Some(settings))));
    }
    Group { title, jobs }
}

/// Runs a program once.
///
/// # Errors
///
/// It fails, or this executable cannot be found.
pub fn run(spec: &ShimSpec) -> anyhow::Result<Outcome> {
    let prepared = match Prepared::new(&spec.program, 1) {
        Ok(prepared) => prepared,
        Err(why) => return Ok(Outcome::unsupported(why)),
    };
    let quaver = std::env::current_exe()?;
    let how = spec.user_threads.as_ref().map(|settings| UserThreads {
        quaver,
        workers: settings.cpus.len(),
        cpus: settings.cpus.clone(),
        quantum: settings.quantum_us.map(Duration::from_micros),
        clock: if settings.timer_core { Clock::TimerCore } else { Clock::TimerThread },
        policy: "ws".into(),
        max_deferral: Some(Duration::ZERO),
    });
    let run = prepared.run(how).map_err(anyhow::Error::msg)?;
    let mut sample = Sample::default().with(SECONDS, run.took.as_secs_f64());
    if spec.user_threads.is_some() {
        sample = sample.with(PREEMPTIONS, run.counters.preempt_useful as f64);
    }
    Ok(sample.into())
}
