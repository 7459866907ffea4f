//! `quaver selftest lock`: do the lock, its monitor and `quaver lock` work on this machine?

mod counted;
mod pthreads;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{Table, presets};
use quaver_lock::{monitor, slice};
use serde::Serialize;

use super::Args;
use crate::interrupt::Interrupt;
use crate::output::{self, Target};

/// What came of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// It works.
    Ok,
    /// It is not possible here, and the detail says why. Locks work without it.
    Missing,
    /// It does not do what it should.
    Failed,
}

/// A part and what came of it.
#[derive(Debug, Serialize)]
struct Row {
    part: &'static str,
    outcome: Outcome,
    detail: String,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    interrupted: bool,
    failed: usize,
    missing: usize,
    rows: Vec<Row>,
}

/// The result of a part: what it has found; or what is missing; or what is wrong.
type Found = Result<String, (Outcome, String)>;

type Part = (&'static str, fn() -> Found);

const PARTS: &[Part] = &[
    ("lock", lock),
    ("slices", slices),
    ("monitor", attach),
    ("monitored", monitored),
    ("preemption", preemption),
    ("preload", preload),
];

/// Tries one part after the other. The exit code is 0 unless one failed.
///
/// # Errors
///
/// No place for the JSON file.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.child.is_some() {
        output::print(&pthreads::counts())?;
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
    if args.list {
        output::print(&format!("{}\n", names.join(", ")))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = args.only.iter().find(|name| !names.contains(&name.as_str())) {
        anyhow::bail!("there is no part '{name}': quaver selftest lock --list names them");
    }
    if let Some(target) = &args.json {
        target.check()?;
    }
    let interrupt = Interrupt::install().context("cannot take over SIGINT and SIGTERM")?;
    let mut rows = Vec::new();
    for (part, try_it) in PARTS {
        if interrupt.raised().is_some() {
            break;
        }
        if args.only.is_empty() || args.only.iter().any(|name| name == part) {
            let begun = Instant::now();
            let (outcome, detail) = match try_it() {
                Ok(detail) => (Outcome::Ok, detail),
                Err(why) => why,
            };
            rows.push(Row { part, outcome, detail, seconds: begun.elapsed().as_secs_f64() });
        }
    }
    let count = |outcome| rows.iter().filter(|row: &&Row| row.outcome == outcome).count();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        interrupted: interrupt.raised().is_some(),
        failed: count(Outcome::Failed),
        missing: count(Outcome::Missing),
        rows,
    };
    if args.json != Some(Target::Stdout) {
        output::print(&report.to_text())?;
    }
    if let Some(target) = &args.json {
        target.write_json(&report)?;
    }
    Ok(match interrupt.raised() {
        _ if report.failed > 0 => ExitCode::FAILURE,
        Some(signal) => signal.exit_code().into(),
        None => ExitCode::SUCCESS,
    })
}

impl Report {
    fn to_text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(["part", "outcome", "", "s"]);
        for row in &self.rows {
            let outcome = format!("{:?}", row.outcome).to_lowercase();
            table.add_row([row.part, &outcome, &row.detail, &format!("{:.1}", row.seconds)]);
        }
        let Report { failed, missing, .. } = self;
        format!("{table}\n{failed} failed, {missing} missing\n")
    }
}

fn failed<T>(why: String) -> Result<T, (Outcome, String)> {
    Err((Outcome::Failed, why))
}

/// Locks without a monitor.
fn lock() -> Found {
    monitor::detach();
    counted::exact().or_else(failed)
}

/// The same, and the kernel puts the preemption of holders off.
fn slices() -> Found {
    monitor::detach();
    slice::use_it().map_err(|why| (Outcome::Missing, why.to_string()))?;
    counted::exact().or_else(failed)
}

/// A monitor: lockd's, or one of this process.
fn attach() -> Found {
    match monitor::attach() {
        Ok(monitor::Source::Lockd) => {
            Ok(format!("lockd answers at {}", monitor::socket_path().display()))
        }
        Ok(monitor::Source::Own) => Ok("the kernel takes the program; no lockd runs".into()),
        Err(absent) => Err((Outcome::Missing, absent.to_string())),
    }
}

/// Locks with a monitor.
fn monitored() -> Found {
    attach()?;
    counted::exact().or_else(failed)
}

/// A holder that is preempted is counted, and then not any more.
fn preemption() -> Found {
    attach()?;
    counted::preempted(Duration::from_secs(10)).or_else(failed)
}

/// A program of pthreads under `quaver lock`: this one.
fn preload() -> Found {
    if let Err(why) = crate::lock::library() {
        return Err((Outcome::Missing, format!("{why:#}")));
    }
    let quaver = std::env::current_exe().or_else(|e| failed(e.to_string()))?;
    let program = ["selftest", "lock", "--child", "pthreads"];
    let output = Command::new(&quaver)
        .args(["lock", "--"])
        .arg(&quaver)
        .args(program)
        .output()
        .or_else(|e| failed(e.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || said != pthreads::EXPECTED {
        let errors = String::from_utf8_lossy(&output.stderr);
        return failed(format!("a program of pthreads: {}: {said}{errors}", output.status));
    }
    Ok(said.trim_end().replace('\n', ", "))
}
