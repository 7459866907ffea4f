//! `quaver selftest fuzz`: random programs, natively and on user threads. See
//! [`quaver_selftest::fuzz`].

use std::process::ExitCode;

use anyhow::{Context, bail};
use quaver_selftest::fuzz::{Difference, Hunt, Program, Progress, program};

use super::Args;
use super::hunting::{Hunting, jobs};
use crate::output;
use crate::run::find_shim;

/// How many programs, unless it is said.
const PROGRAMS: u64 = 200;

/// Says now and then how far it has come.
struct Log {
    hunting: Hunting,
    programs: usize,
}

impl Progress for Log {
    fn so_far(&self, programs: u64, differences: u64) {
        let all = self.programs;
        self.hunting.say(|seconds| {
            format!("{programs} of {all} programs in {seconds} s, {differences} differ")
        });
    }

    fn found(&self, difference: &Difference) {
        eprintln!("{}", difference.to_text());
    }

    fn stop(&self) -> bool {
        self.hunting.is_over()
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
    let log = Log { hunting: Hunting::begin()?, programs: programs.len() };
    let hunt = Hunt {
        programs,
        seed: args.seed,
        quaver: std::env::current_exe().context("cannot find this program's file")?,
        workers: args.workers.map(|n| n as usize),
        jobs: jobs(),
        enough: args.differences,
    };
    let mut report = hunt.run(&log)?;
    report.interrupted = log.hunting.is_over();
    let differs = report.differences != 0;
    log.hunting.end(&report, &report.to_text(), differs, args.json.as_ref())
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
