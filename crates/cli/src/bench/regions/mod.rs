//! `quaver bench regions`: how often programs call what must not be left in the middle, and what
//! uses vector registers (Aspen, Table 1).
//!
//! Programs in C are run by themselves and with a library preloaded that counts, each with much
//! work and with next to none; the difference is the work alone. *unsafe* are calls of functions of
//! the C library that may hold a lock: the allocator, locks, stdio. *vector* are calls of functions
//! that use vector registers (copies, comparisons, strings, exp and log); what compilers wrote into
//! the programs themselves does not count. Both are calls for each microsecond of CPU time without
//! the library. What guarding such a region costs is in `quaver bench notify`, *section*.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use quaver_bench_common::{Outcome, Sample};
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Job, Plan, Reading};
use crate::run::program;

const UNSAFE: &str = "unsafe_per_us";
const VECTOR: &str = "vector_per_us";
/// Next to no work.
const LEAST: f64 = 0.001;

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RegionsSpec {
    program: PathBuf,
    /// What counts.
    library: PathBuf,
    scale: f64,
}

/// A program: as its rows are called, its source, and what is said to the compiler.
struct Program {
    name: &'static str,
    source: &'static str,
    options: &'static [&'static str],
}

const ROCKSDB: &str = "rocksdb.c";
/// The library of Debian 12, and others.
const LIBRARIES: [&str; 3] = ["-l:librocksdb.so.7.8", "-lrocksdb", "-l:librocksdb.so.8.9"];

const PROGRAMS: [Program; 5] = [
    Program { name: "mcf", source: "mcf.c", options: &[] },
    Program { name: "linpack", source: "lu.c", options: &[] },
    Program { name: "base64", source: "base64.c", options: &[] },
    Program { name: "RocksDB GET", source: ROCKSDB, options: &[] },
    Program { name: "RocksDB SCAN", source: ROCKSDB, options: &["-DSCAN"] },
];

const COUNT: &str = "count.c";
const FILES: [(&str, &str); 6] = [
    ("common.h", include_str!("../../../../../bench/programs/common.h")),
    ("lu.c", include_str!("../../../../../bench/programs/lu.c")),
    ("mcf.c", include_str!("mcf.c")),
    ("base64.c", include_str!("base64.c")),
    (ROCKSDB, include_str!("rocksdb.c")),
    (COUNT, include_str!("count.c")),
];

/// The jobs of this benchmark.
///
/// # Errors
///
/// There is no room. What cannot be built is left out with a note.
pub fn plan(context: &Context) -> anyhow::Result<Plan> {
    let mut plan = Plan::default();
    plan.notes.push("regions: CPU time of programs without what counts".into());
    let folder = context.folder()?.join("regions");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let shared = ["-shared", "-fPIC", "-fno-builtin", "-fno-tree-loop-distribute-patterns"];
    let library = match compile(&folder, COUNT, "count.so", &shared) {
        Ok(library) => library,
        Err(error) => {
            plan.notes.push(format!("regions left out: {error:#}"));
            return Ok(plan);
        }
    };
    // A group each: that one calls more often than another says nothing.
    for program in PROGRAMS {
        match build(&folder, &program) {
            Ok(path) => {
                let title = format!("regions {}", program.name);
                let jobs = vec![job(context, program.name, path, &library)];
                plan.groups.push(Group { title, jobs });
            }
            Err(error) => plan.notes.push(format!("regions: {} left out: {error:#}", program.name)),
        }
    }
    Ok(plan)
}

fn job(context: &Context, name: &str, program: PathBuf, library: &Path) -> Job {
    let task = Task {
        cpus: vec![context.place.worker],
        expected: Duration::from_secs_f64(context.effort.pick(1.0, 10.0)),
        readings: vec![
            Reading::new("unsafe calls per us", UNSAFE, ""),
            Reading::new("vector calls per us", VECTOR, ""),
        ],
    };
    let scale = context.effort.pick(0.05, 1.0);
    let spec = RegionsSpec { program, library: library.to_owned(), scale };
    task.job(name, context.child(&Work::Regions(spec)))
}

fn build(folder: &Path, program: &Program) -> anyhow::Result<PathBuf> {
    let to = program.name.replace(' ', "-");
    let one = |library: Option<&str>| {
        let options: Vec<&str> = program.options.iter().copied().chain(library).collect();
        compile(folder, program.source, &to, &options)
    };
    if program.source != ROCKSDB {
        return one(None);
    }
    let found = LIBRARIES.iter().find_map(|library| one(Some(library)).ok());
    found.context("RocksDB's library is not installed (librocksdb7.8)")
}

fn compile(folder: &Path, source: &str, to: &str, options: &[&str]) -> anyhow::Result<PathBuf> {
    let to = folder.join(to);
    let cc = program::find(OsStr::new("cc"))?;
    let mut command = Command::new(cc);
    command.args(["-std=gnu11", "-O2", "-ffp-contract=off", "-o"]).arg(&to);
    command.arg(folder.join(source)).args(options).arg("-lm").stdin(Stdio::null());
    let output = command.output().context("cannot start cc")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.contains("error")).or(said.lines().last());
        bail!("cc {source}: {}", line.unwrap_or_default());
    }
    Ok(to)
}

/// Measures.
///
/// # Errors
///
/// A program fails, or takes no time.
pub fn run(spec: &RegionsSpec) -> anyhow::Result<Outcome> {
    let [much, least] = [spec.scale, LEAST].map(|scale| {
        let (plain_us, plain) = once(spec, scale, None)?;
        let counts = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        let (_, counted) = once(spec, scale, Some(counts.path()))?;
        if plain != counted {
            bail!("{} prints {counted:?} instead of {plain:?}", spec.program.display());
        }
        let record = fs::read(counts.path()).context("nothing was counted")?;
        let mut numbers = record.chunks_exact(8).filter_map(|eight| eight.try_into().ok());
        let mut next = || numbers.next().map(u64::from_le_bytes).context("nothing was counted");
        anyhow::Ok((plain_us, next()?, next()?))
    });
    let (much, least) = (much?, least?);
    let took_us = much.0 - least.0;
    if took_us <= 0.0 {
        bail!("{} takes no time", spec.program.display());
    }
    let rate = |much: u64, least: u64| much.saturating_sub(least) as f64 / took_us;
    let sample = Sample { ops: 1, cpu_ns: (1e3 * took_us) as u64, ..Sample::default() };
    Ok(sample.with(UNSAFE, rate(much.1, least.1)).with(VECTOR, rate(much.2, least.2)).into())
}

/// Runs the program once: its CPU time in µs, and what it prints.
fn once(spec: &RegionsSpec, scale: f64, counts: Option<&Path>) -> anyhow::Result<(f64, String)> {
    let name = spec.program.display();
    let mut command = Command::new(&spec.program);
    command.arg(scale.to_string()).stdin(Stdio::null());
    if let Some(counts) = counts {
        command.env("LD_PRELOAD", &spec.library).env("COUNTS", counts);
    }
    let before = children_us();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}; {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok((children_us() - before, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// CPU time of all children that have ended, in µs.
fn children_us() -> f64 {
    // SAFETY: all zeros is a valid value, which the kernel then fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: &str = "#include \"common.h\"\nint main(int argc, char **argv) {\n\
        size_t n = at_least(1, 1000000 * start(argc, argv, \"calls\"));\n\
        volatile size_t size = 100;\n\
        for (size_t i = 0; i < n; i++) { char *p = malloc(size); memset(p, 1, size); free(p); }\n\
        return finish(n); }\n";

    #[test]
    fn calls_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in FILES.into_iter().chain([("calls.c", CALLS)]) {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let shared = ["-shared", "-fPIC", "-fno-builtin"];
        let library = compile(folder.path(), COUNT, "count.so", &shared).unwrap();
        let program = compile(folder.path(), "calls.c", "calls", &["-fno-builtin"]).unwrap();
        let Outcome::Sample(sample) = run(&RegionsSpec { program, library, scale: 1.0 }).unwrap()
        else {
            panic!("no sample")
        };
        // Two calls of one kind for each of the other.
        let (unsafe_ones, vector) = (sample.metrics[UNSAFE], sample.metrics[VECTOR]);
        assert!((unsafe_ones / vector - 2.0).abs() < 1e-3, "{unsafe_ones} and {vector}");
        let error = compile(folder.path(), "nothing.c", "nothing", &[]).unwrap_err();
        assert!(error.to_string().contains("nothing.c"), "{error}");
    }

    #[test]
    fn programs_check_their_results() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in FILES {
            fs::write(folder.path().join(name), text).unwrap();
        }
        for program in PROGRAMS.iter().filter(|program| program.source != ROCKSDB) {
            let path = build(folder.path(), program).unwrap();
            let output = Command::new(path).arg("0.01").output().unwrap();
            assert!(output.status.success(), "{}: {output:?}", program.name);
        }
    }
}
