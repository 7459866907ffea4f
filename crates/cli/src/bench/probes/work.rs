//! One run of a program: its CPU time, and what the clock saw.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use quaver_bench_common::{Outcome, Sample};
use serde::{Deserialize, Serialize};

use super::samples::Samples;
use crate::process;

/// Metric: CPU time of the program.
pub const CPU_MS: &str = "cpu_ms";
/// Metric: how often it was interrupted.
pub const PREEMPTIONS: &str = "preemptions";
/// Metrics of user threads, by their names in the statistics: of the interruptions those at probes,
/// and how many signals were sent.
const COUNTED: [(&str, &str); 3] = [
    (PREEMPTIONS, "preempt_useful"),
    ("preemptions_at_probes", "preempt_at_probe"),
    ("signals", "preempt_sent"),
];

/// The parent kills who takes too long.
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What is run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProbesSpec {
    /// The executables, one after the other.
    pub programs: Vec<PathBuf>,
    /// How much work each does.
    pub scale: f64,
    /// What each must print.
    pub prints: String,
    /// Where it runs.
    pub cpu: usize,
    /// Beside whom.
    pub how: How,
}

/// Beside whom a program runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Nobody.
    Alone,
    /// A clock on another CPU, by the word of the probes or by signals.
    Clock { quantum_us: u64, cpu: usize, by_signal: bool },
    /// On user threads beside one that yields all the time; or two libraries beside each other.
    /// The quantum as `quaver run` takes it; with a timer core on that CPU. Preemptions may take
    /// `tax` percent of the time.
    UserThreads {
        quantum: String,
        notification: String,
        pair: Option<[PathBuf; 2]>,
        timer_core: Option<usize>,
        tax: u64,
    },
}

/// What the runs of one job come to.
#[derive(Default)]
struct Total {
    cpu_ns: u64,
    /// What the clock saw.
    seen: Option<Samples>,
    /// Of the runtime's statistics.
    counted: Vec<(&'static str, f64)>,
}

/// Runs them.
///
/// # Errors
///
/// One cannot be started. Ends the process when it fails or prints something else: then the whole
/// command fails.
pub fn run(spec: &ProbesSpec) -> anyhow::Result<Outcome> {
    let mut total = Total::default();
    for program in &spec.programs {
        one(spec, program, &mut total)?;
    }
    let mut sample = Sample { ops: 1, cpu_ns: total.cpu_ns, ..Sample::default() };
    sample = sample.with(CPU_MS, total.cpu_ns as f64 / 1e6);
    let seen = total.seen.iter().flat_map(Samples::metrics);
    let metrics = total.counted.into_iter().chain(seen);
    Ok(metrics.fold(sample, |sample, (name, value)| sample.with(name, value)).into())
}

fn one(spec: &ProbesSpec, program: &Path, total: &mut Total) -> anyhow::Result<()> {
    let folder = program.parent().context("the program is in no folder")?;
    let files = tempfile::tempdir_in(folder).context("cannot make a temporary folder")?;
    let (report, stats) = (files.path().join("report"), files.path().join("stats"));
    let mut command = command(spec, program, &report, &stats)?;
    let mut out = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?);
    let name = program.display();
    let mut cpus = vec![spec.cpu];
    if let How::UserThreads { timer_core: Some(cpu), .. } = spec.how {
        cpus.push(cpu);
    }
    let child = process::spawn(&mut command, &cpus);
    let child = child.with_context(|| format!("cannot start {name}"))?;
    let status = process::wait(child, NO_LIMIT)?.context("it took a day")?;
    let mut printed = String::new();
    out.rewind()?;
    out.read_to_string(&mut printed)?;
    if !status.success() || printed != spec.prints {
        let _ = files.close();
        eprintln!("{name}: {status}; it prints {printed:?} instead of {:?}", spec.prints);
        std::process::exit(1);
    }
    let record = fs::read(&report).with_context(|| format!("{name} reported nothing"))?;
    let mut numbers =
        record.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
    total.cpu_ns += numbers.next().context("the report is empty")?;
    match &spec.how {
        How::Alone => {}
        How::Clock { quantum_us, .. } => {
            let numbers: Vec<u64> = numbers.collect();
            let samples = Samples::new(&numbers, 1_000 * quantum_us);
            total.seen.get_or_insert_default().add(samples);
        }
        How::UserThreads { .. } => {
            let text = fs::read_to_string(&stats).context("there are no statistics")?;
            let stats: serde_json::Value = serde_json::from_str(text.trim())?;
            total.counted.resize(COUNTED.len(), ("", 0.0));
            for (sum, (name, key)) in total.counted.iter_mut().zip(COUNTED) {
                let count = stats[key].as_f64().with_context(|| format!("no {key}"))?;
                *sum = (name, sum.1 + count);
            }
        }
    }
    Ok(())
}

fn command(
    spec: &ProbesSpec,
    program: &Path,
    report: &Path,
    stats: &Path,
) -> anyhow::Result<Command> {
    let mut command = match &spec.how {
        How::Alone | How::Clock { .. } => Command::new(program),
        How::UserThreads { quantum, notification, timer_core, tax, .. } => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["run", "--workers", "1", "--cpus", &spec.cpu.to_string()]);
            let clock = if timer_core.is_some() { "timer-core" } else { "posix-timer" };
            command.args(["--policy", "rr", "--clock", clock, "--quantum", quantum]);
            command.args(["--notification", notification, "--tax", &tax.to_string()]);
            command.arg("--stats-json").arg(stats);
            command.arg("--").arg(program);
            command
        }
    };
    command.arg(spec.scale.to_string()).arg(report);
    match &spec.how {
        How::Alone => {}
        How::Clock { quantum_us, cpu, by_signal } => {
            command.arg(if *by_signal { "signal" } else { "word" });
            command.args([quantum_us.to_string(), cpu.to_string()]);
        }
        How::UserThreads { pair: Some(pair), .. } => {
            command.arg(spec.cpu.to_string()).args(pair);
        }
        How::UserThreads { pair: None, .. } => _ = command.arg("waiter"),
    }
    Ok(command)
}
