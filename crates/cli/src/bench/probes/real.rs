//! Programs of others: zstd and SQLite, from the C sources that cargo keeps of the crates that wrap
//! them, and crates of Rust, each with a small program that makes it work.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::programs::Program;

/// What a program runs that is no work of its own.
#[derive(Clone, Copy, Debug)]
pub enum Real {
    /// A library in C.
    Sources(Sources),
    /// A crate: a line of a manifest's dependencies.
    Crate(&'static str),
}

/// Whose sources.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    /// The crate that has them, without its version.
    package: &'static str,
    /// Where they are in it, and what is compiled: a file, or all of a folder.
    root: &'static str,
    parts: &'static [&'static str],
    options: &'static [&'static str],
}

pub const ZSTD: Real = Real::Sources(Sources {
    package: "zstd-sys",
    root: "zstd/lib",
    parts: &["common", "compress", "decompress", "dictBuilder"],
    options: &["-DZSTD_DISABLE_ASM=1"],
});

pub const SQLITE: Real = Real::Sources(Sources {
    package: "libsqlite3-sys",
    root: "sqlite3",
    parts: &["sqlite3.c"],
    options: &[
        "-DSQLITE_THREADSAFE=0",
        "-DSQLITE_ENABLE_FTS5",
        "-DSQLITE_ENABLE_RTREE",
        "-DSQLITE_ENABLE_MATH_FUNCTIONS",
        "-DSQLITE_OMIT_LOAD_EXTENSION",
    ],
});

/// As Cargo.lock has them: cargo downloads nothing.
pub const REDB: Real = Real::Crate("redb = \"=4.4.0\"");
pub const REGEX: Real = Real::Crate("regex = \"=1.13.1\"");
pub const SERDE_JSON: Real = Real::Crate("serde_json = \"=1.0.154\"");

impl Sources {
    /// The folder of headers.
    ///
    /// # Errors
    ///
    /// Cargo has no such sources.
    pub fn root(&self) -> anyhow::Result<PathBuf> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let registry = home.context("neither CARGO_HOME nor HOME is set")?.join("registry/src");
        find(&registry, self.package, self.root).with_context(|| {
            format!("no sources of {} in {}: cargo fetch", self.package, registry.display())
        })
    }

    /// What is compiled, beside the program's own file.
    ///
    /// # Errors
    ///
    /// As [`root`](Self::root).
    pub fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let root = self.root()?;
        let mut files = Vec::new();
        for part in self.parts {
            let path = root.join(part);
            if path.is_file() {
                files.push(path);
                continue;
            }
            let entries =
                fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            files.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "c")));
        }
        if files.is_empty() {
            bail!("no C sources in {}", root.display());
        }
        files.sort();
        Ok(files)
    }

    /// Options of the compiler.
    pub fn options(&self) -> &'static [&'static str] {
        self.options
    }
}

/// The manifest of a package with a program for each crate, in `folder`: the whole program, with
/// the standard library, becomes one text.
///
/// # Errors
///
/// It cannot be written.
pub fn write_manifest(folder: &Path, programs: &[Program]) -> anyhow::Result<()> {
    let mut manifest = "[package]\nname = \"real\"\nedition = \"2024\"\n[workspace]\n".to_owned();
    manifest += "[profile.release]\nlto = \"fat\"\ncodegen-units = 1\n[dependencies]\n";
    for program in programs {
        if let Some(Real::Crate(dependency)) = program.real {
            manifest += &format!("{dependency}\n");
        }
    }
    for Program { name, real, .. } in programs {
        if matches!(real, Some(Real::Crate(_))) {
            manifest += &format!("[[bin]]\nname = \"{}\"\npath = \"{name}.rs\"\n", binary(name));
        }
    }
    let path = folder.join("Cargo.toml");
    fs::write(&path, manifest).with_context(|| format!("cannot write {}", path.display()))
}

/// What cargo calls a program: not as its dependency is called.
pub fn binary(name: &str) -> String {
    format!("real-{name}")
}

/// The newest `package` in one of the folders of `registry`.
fn find(registry: &Path, package: &str, root: &str) -> Option<PathBuf> {
    let entries = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let is = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let version = name.and_then(|name| name.strip_prefix(package)?.strip_prefix('-'));
        version.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let all: Vec<PathBuf> = entries(registry).iter().flat_map(|index| entries(index)).collect();
    let found = all.iter().filter(is).max();
    found.map(|path| path.join(root)).filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_those_of_the_lock() {
        let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));
        let lock = lock.unwrap();
        for real in [REDB, REGEX, SERDE_JSON] {
            let Real::Crate(line) = real else { panic!("{real:?}") };
            let (name, version) = line.split_once(" = \"=").unwrap();
            let entry = format!("name = \"{name}\"\nversion = \"{version}\n");
            assert!(lock.contains(&entry), "{line}");
        }
    }

    #[test]
    fn sources_are_found_by_name() {
        let registry = tempfile::tempdir().unwrap();
        let index = registry.path().join("index");
        for name in ["zstd-sys-2.0.1/zstd/lib", "zstd-sys-2.1.2+z/zstd/lib", "zstd-sys-more-3/zstd"]
        {
            fs::create_dir_all(index.join(name)).unwrap();
        }
        let found = find(registry.path(), "zstd-sys", "zstd/lib").unwrap();
        assert_eq!(found, index.join("zstd-sys-2.1.2+z/zstd/lib"));
        assert_eq!(find(registry.path(), "zstd-sys", "nothing"), None);
        assert_eq!(find(registry.path(), "sqlite", "x"), None);
    }
}
