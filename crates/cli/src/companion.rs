//! Files that belong to this program and are installed or built with it.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::run::program;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Companion {
    /// Its name.
    pub file: &'static str,
    /// The environment variable that may say where it is.
    pub variable: &'static str,
    /// The package that it is built from.
    pub package: &'static str,
    /// Where it is otherwise, from this program's folder; `.` is that folder.
    pub places: &'static [&'static str],
    /// Whether it is a program, which may be in `PATH` too.
    pub program: bool,
}

/// What `quaver run` puts into programs.
pub const SHIM: Companion = Companion {
    file: "libquaver_shim.so",
    variable: "QUAVER_SHIM",
    package: "quaver-shim",
    places: &[".", "deps", "../lib", "../lib64"],
    program: false,
};

/// What `quaver lock` puts into programs.
pub const LOCK_PRELOAD: Companion = Companion {
    file: "libquaver_lock_preload.so",
    variable: "QUAVER_LOCK_PRELOAD",
    package: "quaver-lock-preload",
    places: &[".", "deps", "../lib", "../lib64"],
    program: false,
};

/// What `quaver cc` uses in place of the assembler.
pub const ASSEMBLER: Companion = Companion {
    file: "quaver-as",
    variable: "QUAVER_AS",
    package: "quaver-probes",
    places: &["."],
    program: true,
};

/// What `quaver bench` compares with.
pub const PEERS: Companion = Companion {
    file: "quaver-bench-peers",
    variable: "QUAVER_BENCH_PEERS",
    package: "quaver-bench-peers",
    // Tests run one folder below the programs.
    places: &[".", ".."],
    program: true,
};

impl Companion {
    /// Where it is.
    ///
    /// # Errors
    ///
    /// It is nowhere; or not where its variable says.
    pub fn find(&self) -> anyhow::Result<PathBuf> {
        let Companion { file, variable, package, .. } = self;
        if let Some(named) = env::var_os(variable) {
            let path = PathBuf::from(named);
            if !path.is_file() {
                bail!("cannot find {file}: {variable} is {path:?}, which is no file");
            }
            return canonical(&path);
        }
        let exe = env::current_exe().context("cannot find this program's own file")?;
        let folder = exe.parent().unwrap_or(Path::new("/"));
        let mut near = self.places.iter().map(|place| folder.join(place).join(file));
        let in_path = || program::find(OsStr::new(file)).ok().filter(|_| self.program);
        let Some(path) = near.find(|path| path.is_file()).or_else(in_path) else {
            bail!(
                "cannot find {file}: build it with `cargo build --release -p {package}`, install \
                 it with `make install`, or say in {variable} where it is"
            );
        };
        canonical(&path)
    }
}

fn canonical(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let nowhere = Companion {
            file: "quaver-nothing",
            variable: "NO_SUCH_VARIABLE",
            package: "quaver-none",
            places: &["."],
            program: true,
        };
        let error = nowhere.find().unwrap_err().to_string();
        for part in ["quaver-nothing", "NO_SUCH_VARIABLE", "-p quaver-none"] {
            assert!(error.contains(part), "{error}");
        }
        let shell = Companion { file: "sh", ..nowhere };
        assert!(shell.find().unwrap().is_absolute());
        assert!(Companion { program: false, ..shell }.find().is_err());
    }
}
