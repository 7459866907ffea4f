//! Programs of others, as they are and under `quaver lock -- PROGRAM`. (FlexGuard 5.3, Figure 4.)
//!
//! kccachetest and RocksDB's db_bench are Debian's (kyotocabinet-utils, rocksdb-tools). LevelDB's
//! db_bench is built from its source package (`leveldb`), or is where `LEVELDB_BENCH` says.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use quaver_bench_common::{Outcome, Sample};
use quaver_bench_locks::measure::OPS;
use serde::{Deserialize, Serialize};

use super::super::child::Work as ChildWork;
use super::super::context::{Context, Task};
use super::super::plan::{Group, Reading};
use super::{About, Work, leveldb};
use crate::bench::servers::natives::find;

/// A program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Program {
    /// Kyoto Cabinet's test of random operations of all kinds.
    Wicked,
    /// RocksDB's: fillrandom, then readrandom.
    RocksDb,
    /// LevelDB's, the same.
    LevelDb,
}

/// One run of a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    program: Program,
    path: PathBuf,
    /// This executable, if the program runs under `quaver lock`.
    under: Option<PathBuf>,
    threads: usize,
    /// Operations of each thread.
    ops: u64,
}

impl Program {
    const ALL: [Program; 3] = [Program::Wicked, Program::RocksDb, Program::LevelDb];

    fn name(self) -> &'static str {
        match self {
            Program::Wicked => "kccachetest wicked",
            Program::RocksDb => "rocksdb",
            Program::LevelDb => "leveldb",
        }
    }

    /// Where it is. What no package has is built, but not for a look.
    ///
    /// # Errors
    ///
    /// What to do to have it.
    fn find(self, quick: bool) -> Result<PathBuf, String> {
        let installed = |name: &str, package: &str| {
            find(name)
                .map(PathBuf::from)
                .ok_or_else(|| format!("it is not installed (Debian's {package})"))
        };
        match self {
            Program::Wicked => installed("kccachetest", "kyotocabinet-utils"),
            Program::RocksDb => installed("db_bench", "rocksdb-tools"),
            Program::LevelDb => leveldb::find(!quick),
        }
    }

    /// Its parts: the metric of each, and the name in the program's output.
    fn parts(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Program::Wicked => &[(OPS, "")],
            _ => &[("fillrandom_per_s", "fillrandom"), ("readrandom_per_s", "readrandom")],
        }
    }

    fn ops(self, quick: bool) -> u64 {
        match (self, quick) {
            (_, true) => 2_000,
            (Program::Wicked, false) => 200_000,
            (_, false) => 100_000,
        }
    }
}

/// Native, and under `quaver lock`, at each number of threads; and what is left out.
///
/// # Errors
///
/// When this executable cannot be asked what it can do.
pub fn groups(context: &Context, threads: &[usize]) -> anyhow::Result<(Vec<Group>, Vec<String>)> {
    let (mut groups, mut notes) = (Vec::new(), Vec::new());
    let me = context.program();
    let preload = can_preload(me)?;
    if !preload {
        notes.push("lock programs: only native: this `quaver` has no command `lock`".into());
    }
    for program in Program::ALL {
        match program.find(context.effort.quick) {
            Ok(path) => groups.extend(threads.iter().map(|&threads| {
                let ops = program.ops(context.effort.quick);
                let run = Run { program, path: path.clone(), under: None, threads, ops };
                group(context, &run, preload.then_some(me))
            })),
            Err(why) => notes.push(format!("lock {}: left out: {why}", program.name())),
        }
    }
    Ok((groups, notes))
}

fn group(context: &Context, native: &Run, me: Option<&Path>) -> Group {
    let name = native.program.name();
    let reading = |&(metric, part): &(&str, &str)| {
        let row = format!("{name} {part} {:2} threads", native.threads).replace("  ", " ");
        Reading::new(row, metric, "ops/s")
    };
    let task = Task {
        cpus: context.place.all.clone(),
        expected: Duration::from_secs(10),
        readings: native.program.parts().iter().map(reading).collect(),
    };
    let job = |name: &'static str, run: Run| {
        let (workload, threads) = (run.program.name(), run.threads);
        let mut job = task.job(name, context.child(&ChildWork::Lock(Work::Program(run))));
        job.about = Some(About { workload, threads, lock: name, background: 0, between: None });
        job
    };
    let mut jobs = vec![job("native", native.clone())];
    if let Some(me) = me {
        let under = Run { under: Some(me.to_owned()), ..native.clone() };
        jobs.push(job("quaver lock", under));
    }
    Group { title: format!("lock {name} {} threads", native.threads), jobs }
}

/// Whether this executable has `quaver lock`.
fn can_preload(me: &Path) -> anyhow::Result<bool> {
    let mut command = Command::new(me);
    command.args(["lock", "--help"]).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot start {}", me.display()))?;
    Ok(output.status.success())
}

impl Run {
    fn arguments(&self, folder: &Path) -> Vec<OsString> {
        let (threads, ops) = (self.threads.to_string(), self.ops.to_string());
        match self.program {
            Program::Wicked => {
                ["wicked", "-th", &threads, &ops].into_iter().map(OsString::from).collect()
            }
            Program::RocksDb | Program::LevelDb => {
                let mut database = OsString::from("--db=");
                database.push(folder);
                let of_all = format!("--num={}", self.ops);
                ["--benchmarks=fillrandom,readrandom", &of_all, &format!("--threads={threads}")]
                    .into_iter()
                    .map(OsString::from)
                    .chain([database])
                    .collect()
            }
        }
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    ///
    /// When it cannot be started, fails, or says nothing of what it was asked for.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        let folder = tempfile::Builder::new().prefix("quaver-bench-").tempdir()?;
        let mut command = match &self.under {
            None => Command::new(&self.path),
            Some(me) => {
                let mut command = Command::new(me);
                command.args(["lock", "--"]).arg(&self.path);
                command
            }
        };
        command.args(self.arguments(folder.path())).stdin(Stdio::null());
        let begun = Instant::now();
        let output =
            command.output().with_context(|| format!("cannot start {}", self.path.display()))?;
        let took = begun.elapsed();
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        ensure!(output.status.success(), "{}: {}; {last}", self.program.name(), output.status);
        let wall_ns = u64::try_from(took.as_nanos())?;
        let ops = self.ops * self.threads as u64;
        let mut sample = Sample { ops, wall_ns, ..Sample::default() };
        let text = String::from_utf8_lossy(&output.stdout);
        for (metric, part) in self.program.parts() {
            let rate = match self.program {
                Program::Wicked => ops as f64 / took.as_secs_f64(),
                Program::RocksDb => rate(&text, part, "ops/sec")
                    .with_context(|| format!("RocksDB's db_bench says nothing of {part}"))?,
                // It gives the time of an operation in its thread.
                Program::LevelDb => {
                    let micros = rate(&text, part, "micros/op")
                        .with_context(|| format!("LevelDB's db_bench says nothing of {part}"))?;
                    self.threads as f64 * 1e6 / micros
                }
            };
            sample = sample.with(metric, rate);
        }
        Ok(sample.into())
    }
}

/// The number before `unit` in the line of `part`: `fillrandom : 4.5 micros/op 2200 ops/sec ...`.
fn rate(text: &str, part: &str, unit: &str) -> Option<f64> {
    let line = text.lines().rev().find(|line| line.split_whitespace().next() == Some(part))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_what_programs_say() {
        let rocks = "fillrandom   :       3.894 micros/op 480030 ops/sec 0.004 seconds 2000 \
                     operations;   53.1 MB/s\nreadrandom : 1.5 micros/op 1300000 ops/sec";
        assert_eq!(rate(rocks, "fillrandom", "ops/sec"), Some(480_030.0));
        assert_eq!(rate(rocks, "readrandom", "ops/sec"), Some(1_300_000.0));
        let level = "readrandom   :       2.345 micros/op; (1000 of 1000 found)";
        assert_eq!(rate(level, "readrandom", "micros/op"), Some(2.345));
        assert_eq!(rate(level, "fillrandom", "micros/op"), None);
    }

    #[test]
    fn a_program_without_quaver_lock_runs_native_only() {
        assert!(!can_preload(Path::new("/bin/false")).unwrap());
        assert!(can_preload(Path::new("/bin/true")).unwrap());
        assert!(can_preload(Path::new("/nonexistent/quaver")).is_err());
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_status() {
        let run = Run {
            program: Program::Wicked,
            path: "/bin/false".into(),
            under: None,
            threads: 1,
            ops: 1,
        };
        let error = format!("{:#}", run.run().unwrap_err());
        assert!(error.contains("kccachetest wicked") && error.contains("status: 1"), "{error}");
    }

    #[test]
    fn the_command_goes_under_quaver_lock() {
        // `echo` in place of both: the program's output is what it was called with.
        let path = PathBuf::from("/bin/echo");
        let run =
            Run { program: Program::RocksDb, under: Some(path.clone()), path, threads: 2, ops: 5 };
        let error = format!("{:#}", run.run().unwrap_err());
        assert!(error.contains("says nothing of fillrandom"), "{error}");
        let wicked = Run { program: Program::Wicked, ..run };
        let Outcome::Sample(sample) = wicked.run().unwrap() else { panic!("it runs") };
        assert_eq!(sample.ops, 10);
    }
}
