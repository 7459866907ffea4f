//! Whole programs of Linux distributions, unmodified, with their threads as user threads (`quaver
//! run`).
//!
//! Each is run natively, and then over and over on user threads with short and random quanta; its
//! result must be the same byte for byte. How often it was preempted is in the statistics that
//! `quaver run --stats-json` writes.
//!
//! | file | what |
//! |---|---|
//! | [`launch`] | starts a program, natively or on user threads, and waits for it |
//! | `compressors` | pigz, xz |
//! | `sqlite`, `kccachetest`, `db_bench` | databases |
//! | `memcached`, `load` | a server, and the clients that ask it |

mod compressors;
mod db_bench;
mod kccachetest;
pub mod launch;
mod load;
mod memcached;
mod sqlite;

use super::rounds::Rounds;
use super::{Job, Report, Rng};
use crate::outcome::Outcome;
use launch::{Launcher, UserThreads};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A program of a package.
pub(super) trait Program {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The executables that it takes, and Debian's package.
    fn needs(&self) -> (&'static [&'static str], &'static str);

    /// Writes what it reads, in an empty directory.
    fn prepare(&self, directory: &Path, seed: u64) -> std::io::Result<()>;

    /// Does its work once and returns the result: the same each time.
    fn run(&self, launcher: &Launcher, directory: &Path) -> Result<Vec<u8>, String>;
}

fn all() -> [&'static dyn Program; 6] {
    [
        &compressors::Pigz,
        &compressors::Xz,
        &sqlite::Sqlite3,
        &kccachetest::Kccachetest,
        &memcached::Memcached,
        &db_bench::DbBench,
    ]
}

/// The programs' names.
pub fn names() -> Vec<&'static str> {
    all().iter().map(|p| p.name()).collect()
}

/// How long one run may take: far longer than any does, also on a machine that is busy with other
/// things.
const LIMIT: Duration = Duration::from_secs(300);

/// A program that is installed, with its data.
pub struct Prepared {
    program: &'static dyn Program,
    directory: tempfile::TempDir,
}

impl Prepared {
    /// Writes the data of a program.
    ///
    /// # Errors
    ///
    /// There is no such program, it is not installed, or its data cannot be written.
    pub fn new(name: &str, seed: u64) -> Result<Prepared, String> {
        let program = all().into_iter().find(|p| p.name() == name);
        let program = program.ok_or_else(|| format!("there is no program {name}"))?;
        let (executables, package) = program.needs();
        if let Some(missing) = executables.iter().find(|name| !launch::is_installed(name)) {
            return Err(format!("not installed: {missing} (Debian: {package})"));
        }
        let unwritable = |e| format!("cannot write the data of {name}: {e}");
        let directory = tempfile::Builder::new().prefix("quaver-").tempdir().map_err(unwritable)?;
        program.prepare(directory.path(), seed).map_err(unwritable)?;
        Ok(Prepared { program, directory })
    }

    /// Runs it once.
    ///
    /// # Errors
    ///
    /// It failed, or took too long.
    pub fn run(&self, how: Option<UserThreads>) -> Result<Run, String> {
        let launcher = Launcher::new(how, self.directory.path(), LIMIT);
        let start = Instant::now();
        let result = self.program.run(&launcher, self.directory.path())?;
        let took = launcher.took().unwrap_or_else(|| start.elapsed());
        Ok(Run { result, took, counters: launcher.counters() })
    }
}

/// What came of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the program has computed.
    pub result: Vec<u8>,
    /// On the wall.
    pub took: Duration,
    /// What the runtime has counted; zero natively.
    pub counters: launch::Counters,
}

/// Does the job.
pub(super) fn run(job: &Job, outcome: &mut Outcome, report: Report<'_>) {
    let prepared = match Prepared::new(&job.program, job.seed) {
        Ok(prepared) => prepared,
        Err(why) => {
            outcome.skipped = Some(why);
            return;
        }
    };
    let Some(quaver) = &job.quaver else {
        outcome.skipped = Some("`quaver run` does not find its library, libquaver_shim.so".into());
        return;
    };
    let expected = match (prepared.run(None), prepared.run(None)) {
        (Ok(one), Ok(other)) if one.result == other.result => one.result,
        (Ok(_), Ok(_)) => {
            outcome.skipped = Some("its result differs from run to run natively, too".into());
            return;
        }
        (Err(e), _) | (_, Err(e)) => {
            outcome.skipped = Some(format!("it fails natively: {e}"));
            return;
        }
    };
    let mut rounds = Rounds::new(job);
    while let Some(setting) = rounds.next(outcome) {
        let how = UserThreads {
            quaver: quaver.clone(),
            workers: job.workers,
            cpus: Vec::new(),
            quantum: Some(setting.quantum),
            clock: setting.clock,
            policy: setting.policy.into(),
            max_deferral: setting.max_deferral,
        };
        let sum = &mut rounds.sum;
        sum.runs += 1;
        let what = match prepared.run(Some(how.clone())) {
            Ok(run) => {
                sum.preemptions += run.counters.preempt_useful;
                sum.migrations += run.counters.preempt_migrated;
                sum.deferred += run.counters.preempt_deferred;
                sum.handed_over += run.counters.handovers;
                sum.steps += 1;
                difference(&expected, &run.result)
            }
            Err(e) => Some(e),
        };
        if let Some(what) = what {
            let round = setting.round;
            outcome.differ(format!("{what}; {how}, round {round}"), super::reproducer(job));
        }
        report(&rounds.sum);
    }
    rounds.finish(outcome);
}

/// Where two results differ, for people.
fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    if expected == found {
        return None;
    }
    let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let from = at.saturating_sub(10);
        String::from_utf8_lossy(&bytes[from.min(bytes.len())..bytes.len().min(at + 30)])
            .into_owned()
    };
    let (wanted, got) = (around(expected), around(found));
    let sizes = (found.len(), expected.len());
    Some(format!("byte {at}: {got:?} in place of {wanted:?} ({} bytes of {})", sizes.0, sizes.1))
}

/// Is this one of the programs here?
pub fn is_one(name: &str) -> bool {
    names().contains(&name)
}

/// Words and noise: bytes that compress like text and like code.
fn write_text(path: PathBuf, seed: u64, bytes: usize) -> std::io::Result<()> {
    let mut rng = Rng(seed);
    let words: Vec<Vec<u8>> = (0..3000)
        .map(|_| (0..2 + rng.below(7)).map(|_| b'a' + rng.below(26) as u8).collect())
        .collect();
    let mut text = Vec::with_capacity(bytes + 1024);
    while text.len() < bytes {
        if rng.below(1000) == 0 {
            text.extend((0..100).flat_map(|_| rng.next().to_le_bytes()));
        }
        text.extend_from_slice(&words[rng.below(3000) as usize]);
        text.push(b' ');
    }
    text.truncate(bytes);
    std::fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_say_where() {
        assert_eq!(difference(b"same", b"same"), None);
        let text = difference(b"one two three", b"one too three").unwrap();
        assert!(text.contains("byte 5") && text.contains("one too"), "{text}");
        assert!(difference(b"longer", b"long").unwrap().contains("4 bytes of 6"));
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let error = Prepared::new("no-such-program", 1).err().unwrap();
        assert!(error.contains("no-such-program"), "{error}");
    }

    /// What is compared must not depend on anything but the seed; also a test of the programs'
    /// command lines, and of the load that asks memcached.
    #[test]
    fn native_results_are_always_the_same() {
        for name in names() {
            let runs = [1, 1].map(|seed| Prepared::new(name, seed).map(|p| p.run(None)));
            let [one, other] = runs;
            if let (Ok(one), Ok(other)) = (one, other) {
                let (one, other) = (one.unwrap(), other.unwrap());
                assert_eq!(difference(&one.result, &other.result), None, "{name}");
                assert!(!one.result.is_empty(), "{name}");
            }
        }
    }
}
