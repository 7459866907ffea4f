//! Programs in Rust, with a library crate of which the sources are given: for code of others that
//! is to run on the model as it runs elsewhere.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{BuildError, at, first_error, put};

const COMPILER: &str = "rustc";
const COMMON: [&str; 4] = ["--edition=2024", "--cap-lints=allow", "-Copt-level=3", "-Cpanic=abort"];
/// The model's programs are static, and at a fixed address.
const PROGRAM: [&str; 2] = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];

/// A program in one file, and a library crate that needs no other.
#[derive(Clone, Copy, Debug)]
pub struct RustProgram {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
    /// The library crate's name.
    pub library: &'static str,
    /// The paths of the library's files, and their texts; its root is the first.
    pub files: &'static [(&'static str, &'static str)],
}

impl RustProgram {
    /// A key-value server for Fig. 7, scheduled by a policy of `quaver-sched`, whose sources are
    /// these. `workloads/server.rs` says what its arguments mean.
    pub fn server(files: &'static [(&'static str, &'static str)]) -> RustProgram {
        let source = include_str!("../../workloads/server.rs");
        RustProgram { name: "server", source, library: "quaver_sched", files }
    }

    /// Builds the program in `folder`, or finds it there, as [`Workload::build`](super::Workload).
    /// Blocks while the compiler runs: some seconds.
    ///
    /// # Errors
    ///
    /// There is no compiler, it refuses the program, or there is no room.
    pub fn build(&self, folder: &Path) -> Result<PathBuf, BuildError> {
        let asked = Command::new(COMPILER).arg("-vV").stderr(Stdio::null()).output();
        let version = asked.map_err(|source| self.none(source))?.stdout;
        let mut hash = DefaultHasher::new();
        (self.source, self.files, COMMON, PROGRAM, &version).hash(&mut hash);
        let program = folder.join(format!("{}-{:016x}", self.name, hash.finish()));
        put(program, self.name, folder, |own| self.compile(own))
    }

    fn none(&self, source: std::io::Error) -> BuildError {
        BuildError::NoRust { name: self.name, source }
    }

    fn compile(&self, folder: &Path) -> Result<PathBuf, BuildError> {
        let sources = folder.join(self.library);
        for (path, text) in self.files {
            let path = sources.join(path);
            let parent = path.parent().unwrap_or(&sources);
            fs::create_dir_all(parent).map_err(at(parent))?;
            fs::write(&path, text).map_err(at(&path))?;
        }
        let source = folder.join(self.name).with_extension("rs");
        fs::write(&source, self.source).map_err(at(&source))?;
        let library = folder.join(format!("lib{}.rlib", self.library));
        let root = sources.join(self.files.first().map_or("lib.rs", |(path, _)| path));
        self.rustc(&["--crate-type=rlib", "--crate-name", self.library], &root, &library)?;
        let program = folder.join(self.name);
        let library = format!("{}={}", self.library, library.display());
        self.rustc(&[&PROGRAM[..], &["--extern", &library]].concat(), &source, &program)?;
        Ok(program)
    }

    fn rustc(&self, arguments: &[&str], source: &Path, target: &Path) -> Result<(), BuildError> {
        let mut rustc = Command::new(COMPILER);
        rustc.args(COMMON).args(arguments).arg("-o").arg(target).arg(source).stdin(Stdio::null());
        let output = rustc.output().map_err(|source| self.none(source))?;
        if output.status.success() {
            return Ok(());
        }
        Err(BuildError::RustRefused { name: self.name, said: first_error(&output.stderr) })
    }
}
