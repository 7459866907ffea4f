//! `quaver selftest probes`: programs with and without preemption probes. See
//! [`quaver_selftest::probes`].

use std::process::ExitCode;

use anyhow::{Context, bail};
use quaver_selftest::probes::{
    Difference, Hunt, Progress, Report, Work, builds, source, toolchain,
};

use super::Args;
use super::hunting::{Hunting, jobs};
use crate::output;

/// Probes that must hit.
const HITS: u64 = 100_000_000;
const HITS_QUICK: u64 = 1_000_000;

/// Says now and then how far it has come.
struct Log {
    hunting: Hunting,
}

impl Progress for Log {
    fn so_far(&self, report: &Report) {
        let Report { programs, hits, differences, .. } = report;
        self.hunting.say(|seconds| {
            format!("{programs} programs, {hits} hits in {seconds} s, {differences} differ")
        });
    }

    fn found(&self, difference: &Difference) {
        eprint!("{}", difference.to_text());
    }

    fn stop(&self) -> bool {
        self.hunting.is_over()
    }
}

/// Builds and compares programs; the exit code is 0 only if none differs.
///
/// # Errors
///
/// A name that does not exist, no compiler, or a plain program that cannot be built.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let sources = chosen(args)?;
    if args.list {
        let names: Vec<_> = sources.iter().map(|source| source.name.as_str()).collect();
        output::print(&names.join(", "))?;
        return Ok(ExitCode::SUCCESS);
    }
    let compilers = compilers(args)?;
    if let Some(target) = &args.json {
        target.check()?;
    }
    let work = if let Some(programs) = args.random {
        Work::Random(programs)
    } else {
        let all = builds::count(sources.len(), compilers.len());
        let builds = if args.quick { sources.len() } else { all };
        Work::Fixed {
            sources,
            hits: args.hits.unwrap_or(if args.quick { HITS_QUICK } else { HITS }),
            builds: args.programs.unwrap_or(builds as u64),
        }
    };
    let log = Log { hunting: Hunting::begin()? };
    let hunt = Hunt {
        work,
        compilers,
        seed: args.seed,
        quaver: std::env::current_exe().context("cannot find this program's file")?,
        jobs: jobs(),
        thorough: !args.quick,
    };
    let mut report = hunt.run(&log)?;
    report.interrupted = log.hunting.is_over();
    let differs = report.differences != 0;
    log.hunting.end(&report, &report.to_text(), differs, args.json.as_ref())
}

/// The programs that the command line asks for.
fn chosen(args: &Args) -> anyhow::Result<Vec<source::Source>> {
    let mut sources = source::all();
    if let Some(name) = args.only.iter().find(|name| sources.iter().all(|s| s.name != **name)) {
        bail!("there is no program '{name}': quaver selftest probes --list names them");
    }
    if !args.only.is_empty() {
        sources.retain(|source| args.only.contains(&source.name));
    }
    Ok(sources)
}

/// The compilers that the command line names, or that are there.
fn compilers(args: &Args) -> anyhow::Result<Vec<String>> {
    if let Some(name) = args.compilers.iter().find(|name| !toolchain::is_there(name)) {
        bail!("cannot run the compiler '{name}' of --compilers");
    }
    if !args.compilers.is_empty() {
        return Ok(args.compilers.clone());
    }
    let found = toolchain::COMPILERS.iter().filter(|name| toolchain::is_there(name));
    let found: Vec<_> = found.map(ToString::to_string).collect();
    if found.is_empty() {
        bail!("there is neither gcc nor clang: install one, or name compilers with --compilers");
    }
    Ok(found)
}
