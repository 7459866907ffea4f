//! `quaver selftest fuzz`: random programs, natively and on user threads. See
//! [`quaver_selftest::fuzz`].

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use quaver_selftest::fuzz::{Difference, Hunt, Program, Progress, program};

use super::Args;
use crate::interrupt::Interrupt;
use crate::output::{self, Target};
use crate::run::find_shim;

/// Between two lines of a log.
const INTERVAL: Duration = Duration::from_secs(30);

/// How many programs, unless it is said.
const PROGRAMS: u64 = 200;

/// Says now and then how far it has come.
struct Log<'a> {
    interrupt: &'a Interrupt,
    start: Instant,
    said: Mutex<Instant>,
    programs: usize,
    always: bool,
}

impl Progress for Log<'_> {
    fn so_far(&self, programs: u64, differences: u64) {
        let Ok(mut said) = self.said.lock() else { return };
        if self.always || said.elapsed() >= INTERVAL {
            *said = Instant::now();
            let (all, seconds) = (self.programs, self.start.elapsed().as_secs());
            eprintln!(
                "selftest: {programs} of {all} programs in {seconds} s, {differences} differ"
            );
        }
    }

    fn found(&self, difference: &Difference) {
        eprintln!("{}", difference.to_text());
    }

    fn stop(&self) -> bool {
        self.interrupt.raised().is_some()
    }
}

/// Runs programs; the exit code is 0 only if none differs.
///
/// # Errors
///
/// There is no shim, no place for the JSON file, or a process cannot be started.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let programs = numbers(args)?;
    if args.list {
        let operations: Vec<_> =
            programs.iter().map(|&n| Program::generate(args.seed, n).operations()).collect();
        output::print(&program::text(&operations))?;
        return Ok(ExitCode::SUCCESS);
    }
    find_shim()?;
    if let Some(target) = &args.json {
        target.check()?;
    }
    let interrupt = Interrupt::install().context("cannot take over SIGINT and SIGTERM")?;
    let start = Instant::now();
    let log = Log {
        interrupt: &interrupt,
        start,
        said: Mutex::new(start),
        programs: programs.len(),
        always: std::io::stderr().is_terminal(),
    };
    let hunt = Hunt {
        programs,
        seed: args.seed,
        quaver: std::env::current_exe().context("cannot find this program's file")?,
        workers: args.workers.map(|n| n as usize),
        jobs: std::thread::available_parallelism().map_or(1, usize::from).min(4),
        enough: args.differences,
    };
    let mut report = hunt.run(&log)?;
    report.interrupted = interrupt.raised().is_some();
    if args.json != Some(Target::Stdout) {
        output::print(&report.to_text())?;
    }
    if let Some(target) = &args.json {
        target.write_json(&report)?;
    }
    Ok(match interrupt.raised() {
        _ if report.differences != 0 => ExitCode::FAILURE,
        Some(signal) => signal.exit_code().into(),
        None => ExitCode::SUCCESS,
    })
}

/// The programs that the command line asks for.
fn numbers(args: &Args) -> anyhow::Result<Vec<u64>> {
    let programs: Vec<u64> = if args.only.is_empty() {
        (0..args.programs.unwrap_or(PROGRAMS)).collect()
    } else {
        let number =
            |n: &String| n.parse().with_context(|| format!("'{n}' is no program's number"));
        args.only.iter().map(number).collect::<anyhow::Result<_>>()?
    };
    if programs.is_empty() {
        bail!("no program is left to run: --programs must be at least 1");
    }
    Ok(programs)
}
