//! `quaver selftest`: does preemption change a result on this machine? See `docs/selftest.md`.
//!
//! Each scenario or program is a job that runs in a process of its own: see `child`.

mod chaos;
mod child;
mod fuzz;
mod hunting;
mod lock;
mod parts;
mod plan;
mod probes;
mod progress;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use quaver_selftest::{Libraries, boundaries, torture};
use serde::{Deserialize, Serialize};

use crate::interrupt::Interrupt;
use crate::output::{self, Target};
use parts::Parts;
use progress::Progress;
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
    /// Only these scenarios or programs, e.g. `--only malloc,sqlite`; fuzz: their numbers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only on this many workers
    #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u64).range(1..=2))]
    workers: Option<u64>,
    /// Boundaries: what to do in the C library and others that have locks (default: both; with
    /// `--quick` one for each number of workers)
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
    /// How many preemptions all programs together must survive; fewer are a failure. With --quick
    /// no program runs for more than a minute for their sake
    #[arg(long, value_name = "N")]
    preemptions: Option<u64>,
    /// Torture in parts: add what is survived to the counts in FILE, and go on until they reach
    /// --preemptions. After an interruption the same command continues
    #[arg(long, value_name = "FILE", requires = "preemptions")]
    add_to: Option<PathBuf>,
    /// Fuzz: how many programs [default: 200]; probes: how many builds at least [default: all, or
    /// one of each program with --quick]
    #[arg(long, value_name = "N")]
    programs: Option<u64>,
    /// Fuzz: how many programs that differ are enough
    #[arg(long, value_name = "N", default_value_t = 20)]
    differences: u64,
    /// Probes: how many must be hit at least [default: 100 million, or 1 million with --quick]
    #[arg(long, value_name = "N")]
    hits: Option<u64>,
    /// Probes: instead of the programs, so many random ones of csmith's
    #[arg(long, value_name = "N")]
    random: Option<u64>,
    /// Probes: compilers for C; g++-13 belongs to gcc-13 [default: gcc and clang, if there]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    compilers: Vec<String>,
    /// Say which scenarios and programs there are; fuzz: what the programs do
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
    /// The same by user interrupts, which are emulated
    Uintr,
    /// Run real libraries and programs at the shortest quanta and compare their answers
    Torture,
    /// Run random programs natively and on user threads and compare their results
    Fuzz,
    /// Compile programs with preemption probes, make every probe hit, and compare their results
    Probes,
    /// Run programs that share cores, and kill and stop some of them
    Share,
    /// Whether locks, their monitor and `quaver lock` work here: seconds
    Lock,
    /// Boundaries and torture
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
/// When it is interrupted it ends the test that runs and prints what there is.
///
/// # Errors
///
/// A name that does not exist, no place for the JSON file, or a process that cannot be started.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.what == What::Lock {
        return lock::run(&args);
    }
    if let Some(job) = &args.child {
        child::be_one(job)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.what == What::Fuzz {
        return fuzz::run(&args);
    }
    if args.what == What::Probes {
        return probes::run(&args);
    }
    if args.what == What::Share {
        return chaos::run(&args);
    }
    if args.list {
        output::print(&plan::listing())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(target) = &args.json {
        target.check()?;
    }
    if args.add_to.is_some() && args.what != What::Torture {
        bail!("only torture is done in parts: quaver selftest torture --add-to FILE");
    }
    let mut parts = args.add_to.as_deref().map(Parts::open).transpose()?;
    let mut seed = args.seed + parts.as_ref().map_or(0, |p| p.number() - 1);
    let interrupt = Interrupt::install().context("cannot take over SIGINT and SIGTERM")?;
    let mut report = Report::new(args.quick, seed);
    loop {
        one_pass(&args, seed, &interrupt, &mut report, parts.as_mut())?;
        let again = parts.is_some() && report.differences == 0 && interrupt.raised().is_none();
        if !again || missing(&args, &report, parts.as_ref()) == 0 {
            break;
        }
        seed += PASS;
    }
    let interrupted = interrupt.raised();
    let missing = missing(&args, &report, parts.as_ref());
    if let Some(signal) = interrupted {
        report.interrupted = true;
        eprintln!("selftest: {}; this is what was found until then", signal.name());
    } else if missing > 0 {
        eprintln!("selftest: {missing} preemptions fewer than were asked for; the time was over");
    }
    if args.json == Some(Target::Stdout) {
        eprint!("{}", report.details());
    } else {
        output::print(&report.to_text())?;
        if let Some(parts) = &parts {
            output::print(&format!("{} parts, {}", parts.number(), parts.sums()))?;
        }
    }
    if let Some(target) = &args.json {
        target.write_json(&report)?;
    }
    let survived = report.differences + parts.as_ref().map_or(0, |p| p.sums().differences) == 0;
    Ok(match interrupted {
        _ if !survived => ExitCode::FAILURE,
        Some(signal) => signal.exit_code().into(),
        None if missing > 0 => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

/// Between the seeds of two passes of one part: more than there are parts.
const PASS: u64 = 1 << 32;

/// Does all jobs once, or what is left of them when there have been enough preemptions.
fn one_pass(
    args: &Args,
    seed: u64,
    interrupt: &Interrupt,
    report: &mut Report,
    mut parts: Option<&mut Parts>,
) -> anyhow::Result<()> {
    let mut jobs = plan::jobs(args, seed)?;
    let mut progress = Progress::new(jobs.len());
    for i in 0..jobs.len() {
        if args.preemptions.is_some() {
            let left = missing(args, report, parts.as_deref());
            if left == 0 && parts.is_some() {
                break;
            }
            plan::share(&mut jobs[i..], left);
        }
        let job = &jobs[i];
        let (name, workers) = job.name();
        progress.begin(name, workers);
        let outcome = child::run(job, interrupt, &mut |counts| progress.so_far(counts));
        progress.end(&outcome.counts);
        if let (Some(parts), Job::Torture(_)) = (parts.as_deref_mut(), job) {
            parts.add(&outcome)?;
        }
        report.add(job.kind(), outcome);
        if interrupt.raised().is_some() {
            break;
        }
    }
    progress.finish();
    Ok(())
}

/// How many preemptions are still to be survived.
fn missing(args: &Args, report: &Report, parts: Option<&Parts>) -> u64 {
    let survived = parts.map_or(&report.torture, Parts::sums).preemptions;
    args.preemptions.map_or(0, |enough| enough.saturating_sub(survived))
}

impl Job {
    fn kind(&self) -> &'static str {
        match self {
            Job::Boundaries(job) => job.kind(),
            Job::Torture(_) => "torture",
        }
    }

    fn name(&self) -> (&str, usize) {
        match self {
            Job::Boundaries(job) => (&job.scenario, job.workers),
            Job::Torture(job) => (&job.program, job.workers),
        }
    }

    /// How long it may say nothing: far longer than it does on a machine that is busy with other
    /// things.
    fn patience(&self) -> Duration {
        match self {
            // They speak at the end only.
            Job::Boundaries(job) => Duration::from_secs(120 + job.steps / 2_000),
            // After each run, which is several programs one after the other.
            Job::Torture(job) if torture::shimmed::is_one(&job.program) => {
                Duration::from_secs(3600)
            }
            Job::Torture(_) => Duration::from_secs(600),
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
