//! Builds programs one after the other, on several processors, until there were enough.

use super::builds::{self, Build};
use super::compare::{self, Printed};
use super::random;
use super::report::{Difference, Report};
use super::source::Source;
use super::toolchain::{Toolchain, Variant, source_in};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What to build.
#[derive(Clone, Debug)]
pub enum Work {
    /// These programs, by turns, until so many probes have hit and so many builds were compared.
    Fixed {
        /// The programs.
        sources: Vec<Source>,
        /// Hits.
        hits: u64,
        /// Builds.
        builds: u64,
    },
    /// Random programs of this number.
    Random(u64),
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The programs.
    pub work: Work,
    /// C compilers.
    pub compilers: Vec<String>,
    /// Of the first random program; the next has the next number.
    pub seed: u64,
    /// The program `quaver`.
    pub quaver: PathBuf,
    /// Builds at a time.
    pub jobs: usize,
    /// Every build in all variants, and not in one or two beside the plain one.
    pub thorough: bool,
}

/// Is told how far it has come.
pub trait Progress: Sync {
    /// What there is so far.
    fn so_far(&self, report: &Report);
    /// One that differs has been found.
    fn found(&self, difference: &Difference);
    /// Is it to end?
    fn stop(&self) -> bool;
}

/// For a plain program. A random one that does not end within this time is left out.
const PLAIN: Duration = Duration::from_secs(300);
const PLAIN_RANDOM: Duration = Duration::from_secs(3);
/// For one in which every probe hits.
const TORTURED: Duration = Duration::from_secs(3600);
/// So many differences are enough.
const ENOUGH: u64 = 20;

impl Hunt {
    /// Does it.
    ///
    /// # Errors
    ///
    /// A plain program cannot be built or fails, files cannot be written, or processes not started.
    pub fn run(&self, progress: &dyn Progress) -> Result<Report> {
        if let Work::Random(_) = self.work {
            random::check()?;
        }
        let report =
            Report { compilers: self.compilers.clone(), seed: self.seed, ..Report::default() };
        let shared = Shared {
            hunt: self,
            tools: Toolchain::new(&self.quaver, &self.compilers)?,
            progress,
            next: AtomicU64::new(0),
            report: Mutex::new(report),
        };
        std::thread::scope(|scope| {
            let all: Vec<_> =
                (0..self.jobs.max(1)).map(|_| scope.spawn(|| shared.work())).collect();
            all.into_iter()
                .try_for_each(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
        })?;
        Ok(shared.report.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Shared<'a> {
    hunt: &'a Hunt,
    tools: Toolchain,
    progress: &'a dyn Progress,
    next: AtomicU64,
    report: Mutex<Report>,
}

/// What came of one build.
#[derive(Default)]
struct Outcome {
    hits: u64,
    skipped: bool,
    /// The variant, and what is wrong with it.
    wrong: Option<(Variant, String)>,
}

impl Shared<'_> {
    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether build `number` is to be made.
    fn wanted(&self, number: u64) -> Result<bool> {
        let report = self.report();
        if self.progress.stop() || report.differences >= ENOUGH {
            return Ok(false);
        }
        match &self.hunt.work {
            Work::Random(programs) => Ok(number < *programs),
            Work::Fixed { sources, hits, builds } => {
                let all = builds::count(sources.len(), self.hunt.compilers.len()) as u64;
                if report.hits == 0 && number > all + self.hunt.jobs as u64 {
                    return Err(Error::other("no probe was hit in any program"));
                }
                Ok(number < *builds || report.hits < *hits)
            }
        }
    }

    fn work(&self) -> Result<()> {
        loop {
            let number = self.next.fetch_add(1, Relaxed);
            if !self.wanted(number)? {
                return Ok(());
            }
            let place = self.tools.place()?;
            let build = match &self.hunt.work {
                Work::Fixed { sources, .. } => {
                    builds::nth(number as usize, sources, &self.hunt.compilers)
                }
                Work::Random(_) => {
                    random::build(self.hunt.seed + number, &self.hunt.compilers, place.path())?
                }
            };
            let outcome = match self.one(&build, self.variants(number), place.path()) {
                // What was interrupted is no result.
                _ if self.progress.stop() => return Ok(()),
                outcome => outcome?,
            };
            self.add(&build, outcome, place);
        }
    }

    fn add(&self, build: &Build, outcome: Outcome, place: tempfile::TempDir) {
        let mut report = self.report();
        report.hits += outcome.hits;
        if outcome.skipped {
            report.skipped += 1;
        } else {
            report.programs += 1;
        }
        if let Some((variant, what)) = outcome.wrong {
            let again = match self.hunt.work {
                Work::Random(_) => format!("--random 1 --seed {}", self.seed_of(build)),
                Work::Fixed { .. } => format!("--only {}", build.source.name),
            };
            let compilers = self.hunt.compilers.join(",");
            let difference = Difference {
                program: build.source.name.clone(),
                compiler: build.compiler.clone(),
                flags: build.level.into(),
                variant: variant.name().into(),
                what,
                files: place.keep(),
                reproducer: format!("quaver selftest probes {again} --compilers {compilers}"),
            };
            self.progress.found(&difference);
            report.differences += 1;
            report.details.push(difference);
        }
        self.progress.so_far(&report);
    }

    fn seed_of(&self, build: &Build) -> u64 {
        build.source.name.trim_start_matches(char::is_alphabetic).parse().unwrap_or(self.hunt.seed)
    }

    /// In which ways build `number` is made, beside the plain one.
    fn variants(&self, number: u64) -> &'static [Variant] {
        const ALL: [Variant; 3] = [Variant::Reassembled, Variant::Probes, Variant::Control];
        match (self.hunt.thorough, &self.hunt.work, number % 2) {
            (true, ..) => &ALL,
            (_, Work::Random(_), _) => &ALL[1..2],
            (.., 0) => &ALL[..2],
            _ => &ALL[1..],
        }
    }

    /// Builds a program in these ways, and compares.
    fn one(&self, build: &Build, variants: &[Variant], place: &Path) -> Result<Outcome> {
        let random = matches!(self.hunt.work, Work::Random(_));
        std::fs::write(source_in(build, place), build.source.text.as_bytes())?;
        let compile = |variant| self.tools.compile(build, variant, place);
        let scale = build.source.scaled.then(|| build.scale.to_string());
        let arguments: Vec<String> = scale.into_iter().collect();
        let stop = || self.progress.stop();
        let run = |program: &Path, patience| compare::run(program, &arguments, patience, &stop);
        let failed = |variant, what: String| {
            Ok(Outcome { wrong: Some((variant, what)), ..Outcome::default() })
        };

        let plain = compile(Variant::Plain)?;
        let patience = if random { PLAIN_RANDOM } else { PLAIN };
        let expected = run(&plain, patience)?;
        let Some(expected) = expected.filter(|found| !random || random::has_ended(found)) else {
            if random {
                return Ok(Outcome { skipped: true, ..Outcome::default() });
            }
            return Err(Error::other(format!("{} does not end", plain.display())));
        };
        let mut outcome = Outcome::default();
        for &variant in variants {
            let program = match compile(variant) {
                Ok(program) => program,
                Err(error) => return failed(variant, error.to_string()),
            };
            if variant == Variant::Reassembled {
                if std::fs::read(&plain)? != std::fs::read(&program)? {
                    return failed(variant, "another file than the plain one".into());
                }
                continue;
            }
            let Some(found) = run(&program, TORTURED)? else {
                return failed(variant, "it does not end".into());
            };
            if let Some(what) = compare::difference(&expected, &found) {
                return failed(variant, what);
            }
            if variant == Variant::Probes {
                match hits(&found, place) {
                    Ok(hits) => outcome.hits = hits,
                    Err(what) => return failed(variant, what),
                }
            }
        }
        Ok(outcome)
    }
}

/// How many probes were hit; or why it is no program with probes.
fn hits(found: &Printed, place: &Path) -> core::result::Result<u64, String> {
    let report =
        std::fs::read_to_string(place.join("report")).map_err(|e| format!("report: {e}"))?;
    for line in report.lines() {
        let value: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let left = &value["left_file"];
        if !left.is_null() {
            return Err(format!("it was left without probes: {left}"));
        }
    }
    let missing = || format!("it does not say how many probes were hit: {}", found.errors);
    quaver_probes::torture::hits(&found.errors).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::super::source::Language;
    use super::*;

    struct Silent;

    impl Progress for Silent {
        fn so_far(&self, _: &Report) {}
        fn found(&self, _: &Difference) {}
        fn stop(&self) -> bool {
            false
        }
    }

    /// Builds a program by a `quaver` that does something wrong.
    fn hunt(how: &str) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let quaver = folder.path().join(how);
        // A file that was just written might not be executable yet: another thread's child may have
        // it open.
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/probes/quaver.sh");
        std::os::unix::fs::symlink(script, &quaver).unwrap();
        let text = "#include <stdio.h>\n#ifndef X\n#define X 1\n#endif\n\
                    int main(void) { printf(\"a\\n%d\\n\", X); }\n";
        let source = Source {
            name: "small".into(),
            text: text.into(),
            language: Language::C,
            flags: Vec::new(),
            scaled: false,
        };
        let hunt = Hunt {
            work: Work::Fixed { sources: vec![source], hits: 0, builds: 1 },
            compilers: vec!["gcc".into()],
            seed: 1,
            quaver,
            jobs: 1,
            thorough: true,
        };
        hunt.run(&Silent).unwrap()
    }

    #[test]
    fn what_differs_is_found_and_kept() {
        let cases = [
            ("always", "reassembled", "another file"),
            ("control", "control", "line 2: \"2\" instead of \"1\""),
            ("no-report", "probes", "report: "),
            ("left", "probes", "it was left without probes: {\"line\":3}"),
            ("fails", "reassembled", "exit status: 1: x.c:1: bad"),
        ];
        for (how, variant, what) in cases {
            let report = hunt(how);
            assert_eq!((report.programs, report.differences), (1, 1), "{how}: {report:?}");
            let found = &report.details[0];
            assert!(found.files.join("small.c").exists() && found.files.join("plain").exists());
            std::fs::remove_dir_all(&found.files).unwrap();
            assert_eq!(found.variant, variant, "{how}");
            assert!(found.what.contains(what), "{how}: {}", found.what);
        }
    }
}
