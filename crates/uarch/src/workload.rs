//! The programs of the figures: their sources, and how they become static x86-64 programs.
//!
//! A program is compiled by gcc when it is first needed, and kept in a folder under a name that
//! says everything it depends on. It runs on any x86-64 CPU, and prints a result that does not
//! depend on interrupts. `workloads/start.h` says what its argument means.

mod rust;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use thiserror::Error;

pub use rust::RustProgram;

/// The compiler.
const COMPILER: &str = "gcc";

/// How every program is compiled.
const OPTIONS: [&str; 10] = [
    "-O2",
    "-static",
    "-no-pie",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-ffp-contract=off",
    "-muintr",
    "-Wall",
    "-Werror",
];

const START: &str = include_str!("../workloads/start.h");

/// A program of the figures.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    source: &'static str,
    /// Definitions for each [`Size`].
    sizes: [&'static [&'static str]; 3],
}

macro_rules! workload {
    ($name:literal, $about:literal, $quick:expr, $full:expr, $long:expr) => {
        Workload {
            name: $name,
            about: $about,
            source: include_str!(concat!("../workloads/", $name, ".c")),
            sizes: [&$quick, &$full, &$long],
        }
    };
}

/// All of them.
pub const ALL: [Workload; 6] = [
    workload!("fib", "recursion", ["-DSIZE=22"], ["-DSIZE=30"], ["-DSIZE=33"]),
    workload!(
        "linpack",
        "Gaussian elimination",
        ["-DSIZE=60", "-DROUNDS=2"],
        ["-DSIZE=100", "-DROUNDS=8"],
        ["-DSIZE=100", "-DROUNDS=30"]
    ),
    workload!("memops", "copies and sums in memory", ["-DSIZE=6"], ["-DSIZE=160"], ["-DSIZE=640"]),
    workload!(
        "chase",
        "a chain of pointers",
        ["-DSIZE=20000"],
        ["-DSIZE=400000"],
        ["-DSIZE=1600000"]
    ),
    workload!("base64", "an encoder's short loop", ["-DSIZE=12"], ["-DSIZE=160"], ["-DSIZE=640"]),
    workload!("matmul", "a product of matrices", ["-DSIZE=1"], ["-DSIZE=6"], ["-DSIZE=24"]),
];

/// Times CLUI, STUI and SENDUIPI. It runs on the model only, and prints hundredths of cycles.
pub const UINTR: Workload = workload!(
    "uintr",
    "instructions of user interrupts",
    ["-DSIZE=100"],
    ["-DSIZE=1000"],
    ["-DSIZE=10000"]
);

/// Sends user interrupts at deadlines (`-DRECEIVERS=`, `-DPERIOD=` cycles). The model only.
pub const TIMER_CORE: Workload =
    workload!("timercore", "a timer core", ["-DSIZE=20"], ["-DSIZE=100"], ["-DSIZE=400"]);

/// Is woken by the kernel each 25 us: by nanosleep (`-DMODE=0`) or a signal (`-DMODE=1`). It needs
/// [`crate::System`].
pub const TICKS: Workload =
    workload!("ticks", "waits for the kernel", ["-DSIZE=20"], ["-DSIZE=100"], ["-DSIZE=400"]);

/// Offloads requests to an accelerator (`-DMODE=`, `-DEXPECTED=`, `-DAGAIN=` cycles), which must be
/// beside the core.
pub const ACCELERATOR: Workload =
    workload!("accel", "offloads requests", ["-DSIZE=40"], ["-DSIZE=300"], ["-DSIZE=3000"]);

/// A router of packets (`-DQUEUES=`, `-DMODE=`), which needs network cards beside the core.
pub const ROUTER: Workload =
    workload!("l3fwd", "forwards packets", ["-DSIZE=16000"], ["-DSIZE=16000"], ["-DSIZE=16000"]);

/// How long a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Size {
    /// About 0.2 ms at 2 GHz.
    Quick,
    /// About 3 ms.
    Full,
    /// About 12 ms: for what happens seldom.
    Long,
}

/// What the bodies of a program's loops end with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Points {
    /// Nothing: it can be interrupted anywhere.
    Nothing,
    /// A look at a flag in memory.
    Poll,
    /// xUI's safepoint prefix before a `nop` (section 4.4).
    Safepoint,
}

/// Why there is no program.
#[derive(Debug, Error)]
pub enum BuildError {
    /// There is no compiler.
    #[error(
        "the programs of the figures are compiled on this machine, and `{COMPILER}` cannot be \
         started ({0}): install gcc 11 or newer with binutils"
    )]
    NoCompiler(io::Error),
    /// The compiler refuses the program.
    #[error("{COMPILER} cannot compile {name}; gcc 11 or newer is needed. It says: {said}")]
    Refused {
        /// Of the workload.
        name: &'static str,
        /// Its first error.
        said: String,
    },
    /// There is no Rust compiler.
    #[error(
        "{name} is compiled on this machine, and `rustc` cannot be started ({source}): install \
         Rust 1.95 or newer"
    )]
    NoRust {
        /// Of the program.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The Rust compiler refuses the program.
    #[error(
        "rustc cannot compile {name}; Rust 1.95 or newer and a static C library are needed. It \
         says: {said}"
    )]
    RustRefused {
        /// Of the program.
        name: &'static str,
        /// Its first error.
        said: String,
    },
    /// A file cannot be written.
    #[error("cannot write or read {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

impl Workload {
    /// Builds the program in `folder`, which is made if need be, or finds it there. Several
    /// processes may do so at the same time. Blocks while the compiler runs.
    ///
    /// # Errors
    ///
    /// There is no compiler that knows user interrupts, or no room.
    pub fn build(&self, size: Size, points: Points, folder: &Path) -> Result<PathBuf, BuildError> {
        self.build_with(size, points, &[], folder)
    }

    /// The same with more definitions, such as `-DNODES=64`.
    ///
    /// # Errors
    ///
    /// As [`Workload::build`].
    pub fn build_with(
        &self,
        size: Size,
        points: Points,
        more: &[&str],
        folder: &Path,
    ) -> Result<PathBuf, BuildError> {
        let asked = Command::new(COMPILER).arg("-dumpfullversion").stderr(Stdio::null()).output();
        let version = asked.map_err(BuildError::NoCompiler)?.stdout;
        let define: &[&str] = match points {
            Points::Nothing => &[],
            Points::Poll => &["-DPOLL"],
            Points::Safepoint => &["-DSAFEPOINT"],
        };
        let options: Vec<&str> = OPTIONS
            .into_iter()
            .chain(define.iter().chain(self.sizes[size as usize]).chain(more).copied())
            .collect();
        let mut hash = DefaultHasher::new();
        (START, self.source, &options, &version).hash(&mut hash);
        let program = folder.join(format!("{}-{:016x}", self.name, hash.finish()));
        put(program, self.name, folder, |own| self.compile(&options, own))
    }

    /// Compiles the program in a folder that has nothing else.
    fn compile(&self, options: &[&str], folder: &Path) -> Result<PathBuf, BuildError> {
        let source = folder.join(self.name).with_extension("c");
        for (path, text) in [(&source, self.source), (&folder.join("start.h"), START)] {
            fs::write(path, text).map_err(at(path))?;
        }
        let program = folder.join(self.name);
        let mut gcc = Command::new(COMPILER);
        gcc.args(options).arg("-o").arg(&program).arg(&source).arg("-lgcc").stdin(Stdio::null());
        let output = gcc.output().map_err(BuildError::NoCompiler)?;
        if !output.status.success() {
            return Err(BuildError::Refused { name: self.name, said: first_error(&output.stderr) });
        }
        Ok(program)
    }
}

/// Has `compile` make a program in a folder that has nothing else, and puts it where it belongs,
/// unless it is there.
fn put(
    program: PathBuf,
    name: &str,
    folder: &Path,
    compile: impl FnOnce(&Path) -> Result<PathBuf, BuildError>,
) -> Result<PathBuf, BuildError> {
    if program.exists() {
        return Ok(program);
    }
    // A folder of its own: another process or thread may be building the same.
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let build = BUILDS.fetch_add(1, Ordering::Relaxed);
    let own = folder.join(format!(".{}-{build}-{name}", std::process::id()));
    fs::create_dir_all(&own).map_err(at(&own))?;
    let done = compile(&own).and_then(|made| {
        fs::rename(made, &program).map_err(at(&program))?;
        Ok(program)
    });
    // What remains there is known to nobody, and in the way of nobody.
    let _ = fs::remove_dir_all(&own);
    done
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_owned();
    |source| BuildError::File { path, source }
}

/// Of what a compiler has said.
fn first_error(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().find(|line| line.contains("error")).or(said.lines().last());
    line.unwrap_or("nothing").to_owned()
}
