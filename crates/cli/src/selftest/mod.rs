//! `quaver selftest`: does preemption change a result on this machine? See `docs/selftest.md`.
//!
//! Each scenario or program is a job that runs in a process of its own (`quaver selftest --child JOB`) and answers with one
//! line of JSON: one that crashes or hangs is a difference as well, and disturbs no other.

mod plan;
mod report;

use std::io::{IsTerminal, Read, Seek};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use quaver_selftest::{Libraries, Outcome, boundaries, torture};
use serde::{Deserialize, Serialize};

use crate::bench::process;
use crate::doctor::detect::cpus::allowed;
use crate::output::{self, Target};
use report::Report;

/// The command line of `quaver selftest`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to try
    #[arg(value_enum, default_value = "all")]
    what: What,
    /// Take a minute or two instead of an hour
    #[arg(long)]
    quick: bool,
    /// Write the rows as JSON to FILE (`-`: standard output instead of the table)
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Only these scenarios or programs, e.g. `--only malloc,sqlite`
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only on this many workers
    #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u64).range(1..=2))]
    workers: Option<u64>,
    /// Boundaries: what to do in the C library and others that have locks (default: both; with `--quick` one for each number of workers)
    #[arg(long, value_enum)]
    libraries: Option<InLibraries>,
    /// Chooses data, quanta, and the boundaries where not all can be tried
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Preempt at one boundary only, or from it on at every STRIDE-th
    #[arg(long, value_name = "BOUNDARY[/STRIDE]", value_parser = plan::parse_at, requires = "only")]
    at: Option<(u64, u64)>,
    /// How many instructions of each scenario may be stepped
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// How long each program runs
    #[arg(long, value_name = "S", value_parser = plan::parse_seconds)]
    seconds: Option<f64>,
    /// How many preemptions of each program are enough
    #[arg(long, value_name = "N")]
    preemptions: Option<u64>,
    /// Say which scenarios and programs there are
    #[arg(long)]
    list: bool,
    /// Do one job (JSON) and print its outcome
    #[arg(long, value_name = "JOB", hide = true)]
    child: Option<String>,
}

/// What can be tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    /// Preempt short scenarios at every instruction
    Boundaries,
    /// Run real libraries at the shortest quanta and compare their answers
    Torture,
    /// Both
    All,
}

/// What becomes of a preemption in a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum InLibraries {
    /// Put off until the thread comes out
    Defer,
    /// Taken there
    Insist,
}

impl From<InLibraries> for Libraries {
    fn from(l: InLibraries) -> Libraries {
        match l {
            InLibraries::Defer => Libraries::Defer,
            InLibraries::Insist => Libraries::Insist,
        }
    }
}

/// One process's work.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Job {
    Boundaries(boundaries::Job),
    Torture(torture::Job),
}

/// Runs the chosen tests and prints what came of them. The exit code is 0 only if nothing differed.
///
/// # Errors
///
/// A name that does not exist, no place for the JSON file, or a process that cannot be started.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(job) = &args.child {
        let job: Job = serde_json::from_str(job).context("the job is no valid JSON")?;
        let outcome = match job {
            Job::Boundaries(job) => boundaries::run(&job),
            Job::Torture(job) => torture::run(&job),
        };
        output::print(&(serde_json::to_string(&outcome)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.list {
        output::print(&plan::listing())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(target) = &args.json {
        target.check()?;
    }
    let jobs = plan::jobs(&args)?;
    let bar = progress_bar(jobs.len() as u64);
    let mut report = Report::new(args.quick, args.seed);
    for job in &jobs {
        let (name, workers) = job.name();
        bar.set_message(format!("{name}, {workers} workers"));
        report.add(job.kind(), child(job));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json != Some(Target::Stdout) {
        output::print(&report.to_text())?;
    }
    if let Some(target) = &args.json {
        target.write_json(&report)?;
    }
    Ok(if report.differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Job {
    fn kind(&self) -> &'static str {
        match self {
            Job::Boundaries(_) => "boundaries",
            Job::Torture(_) => "torture",
        }
    }

    fn name(&self) -> (&str, usize) {
        match self {
            Job::Boundaries(job) => (&job.scenario, job.workers),
            Job::Torture(job) => (&job.program, job.workers),
        }
    }

    /// Far longer than it takes on a machine that is busy with other things.
    fn limit(&self) -> Duration {
        match self {
            Job::Boundaries(job) => Duration::from_secs(120 + job.steps / 2_000),
            Job::Torture(job) => Duration::from_secs_f64(120.0 + 10.0 * job.seconds),
        }
    }

    /// The command line that does it again.
    fn command(&self) -> String {
        let (name, workers) = self.name();
        let (seed, libraries) = match self {
            Job::Boundaries(job) => (job.seed, format!(" --libraries {}", job.libraries)),
            Job::Torture(job) => (job.seed, String::new()),
        };
        let kind = self.kind();
        format!("quaver selftest {kind} --only {name} --workers {workers}{libraries} --seed {seed}")
    }
}

/// Runs a job in a process of its own. What ends in any other way than with an answer is a difference.
fn child(job: &Job) -> Outcome {
    try_child(job).unwrap_or_else(|error| {
        let (name, workers) = job.name();
        let mut outcome = Outcome::new(name, workers);
        outcome.differ(format!("{error:#}"), job.command());
        outcome
    })
}

fn try_child(job: &Job) -> anyhow::Result<Outcome> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut command = Command::new(program);
    command.args(["selftest", "--child", &serde_json::to_string(job)?]);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let child = process::spawn(&mut command, &allowed()).context("cannot start a process")?;
    let status = process::wait(child, job.limit())?;
    let (mut answer, mut complaint) = (String::new(), String::new());
    for (file, text) in [(&mut out, &mut answer), (&mut err, &mut complaint)] {
        file.rewind()?;
        file.read_to_string(text)?;
    }
    let mut words: Vec<_> =
        complaint.lines().filter(|l| !l.trim().is_empty()).rev().take(3).collect();
    words.reverse();
    let words = words.join("; ");
    match status {
        None => bail!("it hangs: no answer within {:?}, killed; {words}", job.limit()),
        Some(status) if !status.success() => bail!("it crashed: {status}; {words}"),
        Some(_) => serde_json::from_str(&answer).context("its answer cannot be read"),
    }
}

/// A bar on standard error, or nothing where that is no terminal.
fn progress_bar(length: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = "{bar:30} {pos}/{len} {elapsed} {msg}";
    let style = ProgressStyle::with_template(style).expect("the template is well-formed");
    ProgressBar::new(length).with_style(style)
}
