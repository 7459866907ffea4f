//! One run of a program: its CPU time, and what the clock saw.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use quaver_bench_common::{Outcome, Sample};
use serde::{Deserialize, Serialize};

use super::super::process;
use super::samples::Samples;

/// Metric: CPU time of the program.
pub const CPU_MS: &str = "cpu_ms";
/// Metric: how often it was interrupted.
pub const PREEMPTIONS: &str = "preemptions";
/// Metric: how often of these at a probe.
const AT_PROBES: &str = "preemptions_at_probes";
/// Metric: how many signals were sent for that.
const SIGNALS: &str = "signals";

/// The parent kills who takes too long.
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What is run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProbesSpec {
    /// The executable.
    pub program: PathBuf,
    /// How much work.
    pub scale: f64,
    /// What it must print.
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
    /// With a timer core on that CPU.
    UserThreads {
        quantum_us: Option<u64>,
        notification: String,
        pair: Option<[PathBuf; 2]>,
        timer_core: Option<usize>,
    },
}

/// Runs it.
///
/// # Errors
///
/// It cannot be started. Ends the process when it fails or prints something else: then the whole
/// command fails.
pub fn run(spec: &ProbesSpec) -> anyhow::Result<Outcome> {
    let folder = spec.program.parent().context("the program is in no folder")?;
    let files = tempfile::tempdir_in(folder).context("cannot make a temporary folder")?;
    let (report, stats) = (files.path().join("report"), files.path().join("stats"));
    let mut command = command(spec, &report, &stats)?;
    let mut out = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?);
    let name = spec.program.display();
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
    let cpu_ns = numbers.next().context("the report is empty")?;
    let mut sample = Sample { ops: 1, cpu_ns, ..Sample::default() };
    sample = sample.with(CPU_MS, cpu_ns as f64 / 1e6);
    match &spec.how {
        How::Alone => {}
        How::Clock { quantum_us, .. } => {
            let numbers: Vec<u64> = numbers.collect();
            let samples = Samples::new(&numbers, 1_000 * quantum_us);
            sample = samples.metrics().into_iter().fold(sample, |s, (name, n)| s.with(name, n));
        }
        How::UserThreads { .. } => {
            let text = fs::read_to_string(&stats).context("there are no statistics")?;
            let stats: serde_json::Value = serde_json::from_str(text.trim())?;
            let count = |key: &str| stats[key].as_f64().with_context(|| format!("no {key}"));
            sample = sample.with(PREEMPTIONS, count("preempt_useful")?);
            sample = sample.with(AT_PROBES, count("preempt_at_probe")?);
            sample = sample.with(SIGNALS, count("preempt_sent")?);
        }
    }
    Ok(sample.into())
}

fn command(spec: &ProbesSpec, report: &Path, stats: &Path) -> anyhow::Result<Command> {
    let mut command = match &spec.how {
        How::Alone | How::Clock { .. } => Command::new(&spec.program),
        How::UserThreads { quantum_us, notification, timer_core, .. } => {
            let quantum = quantum_us.map_or("off".into(), |us| format!("{us}us"));
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["run", "--workers", "1", "--cpus", &spec.cpu.to_string()]);
            let clock = if timer_core.is_some() { "timer-core" } else { "posix-timer" };
            command.args(["--policy", "rr", "--clock", clock, "--quantum", &quantum]);
            command.args(["--notification", notification, "--stats-json"]).arg(stats);
            command.arg("--").arg(&spec.program);
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
        How::UserThreads { pair: None, quantum_us: Some(_), .. } => _ = command.arg("waiter"),
        How::UserThreads { .. } => bail!("a thread that waits takes a quantum"),
    }
    Ok(command)
}
