//! The Go program: carried as source, built where there is a Go tool chain, kept in the user's
//! cache.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The files of `bench/go`.
const SOURCES: [(&str, &str); 10] = [
    ("go.mod", include_str!("../../../../../bench/go/go.mod")),
    ("main.go", include_str!("../../../../../bench/go/main.go")),
    ("clock.go", include_str!("../../../../../bench/go/clock.go")),
    ("ops.go", include_str!("../../../../../bench/go/ops.go")),
    ("wake.go", include_str!("../../../../../bench/go/wake.go")),
    ("parked.go", include_str!("../../../../../bench/go/parked.go")),
    ("kv.go", include_str!("../../../../../bench/go/kv.go")),
    ("answer.go", include_str!("../../../../../bench/go/answer.go")),
    ("memcached.go", include_str!("../../../../../bench/go/memcached.go")),
    ("net.go", include_str!("../../../../../bench/go/net.go")),
];

/// A program that is ready to run.
#[derive(Debug)]
pub struct Built {
    /// Where it is.
    pub program: PathBuf,
    /// What `go version` says.
    pub version: String,
}

/// Builds the program, unless these sources have been built by this version of Go before.
///
/// # Errors
///
/// When there is no Go, or it cannot build the program; the message is for people.
pub fn build() -> anyhow::Result<Built> {
    build_in(&crate::cache::folder())
}

fn build_in(cache: &Path) -> anyhow::Result<Built> {
    let version = version()?;
    let program = cache.join(format!("go-peer-{:016x}", fingerprint(&version)));
    if !program.is_file() {
        fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
        compile(cache, &program)?;
    }
    Ok(Built { program, version })
}

fn version() -> anyhow::Result<String> {
    let output = Command::new("go").arg("version").output().context("no `go` in PATH")?;
    if !output.status.success() {
        bail!("`go version`: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("go version ").to_owned())
}

/// What the program depends on, in 64 bits. A collision would mean an old program: improbable, and
/// harmless.
fn fingerprint(version: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (version, SOURCES).hash(&mut hasher);
    hasher.finish()
}

fn compile(cache: &Path, program: &Path) -> anyhow::Result<()> {
    // In the cache, so that the result can be renamed into its place: two builds at once do not
    // meet.
    let directory = tempfile::tempdir_in(cache)?;
    for (name, text) in SOURCES {
        fs::write(directory.path().join(name), text)?;
    }
    let output = Command::new("go")
        .args(["build", "-trimpath", "-o", "go-peer", "."])
        .current_dir(directory.path())
        // This module only, with the tool chain that is here, without a C compiler.
        .envs([("GOWORK", "off"), ("GOFLAGS", ""), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")])
        .output()?;
    if !output.status.success() {
        bail!("`go build`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    fs::rename(directory.path().join("go-peer"), program)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use quaver_bench_common::Outcome;

    use super::*;

    #[test]
    fn all_sources_are_carried() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/go");
        let mut there: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name == "go.mod" || name.ends_with(".go"))
            .collect();
        let mut carried = SOURCES.map(|(name, _)| name);
        there.sort();
        carried.sort();
        assert_eq!(there, carried);
    }

    #[test]
    fn the_program_is_built_once_and_answers() {
        let cache = tempfile::tempdir().unwrap();
        let built = match build_in(cache.path()) {
            Ok(built) => built,
            // Without Go there is nothing to build; the message says so.
            Err(error) => return assert!(format!("{error:#}").contains("no `go` in PATH")),
        };
        let written = fs::metadata(&built.program).unwrap().modified().unwrap();
        assert_eq!(build_in(cache.path()).unwrap().program, built.program);
        assert_eq!(fs::metadata(&built.program).unwrap().modified().unwrap(), written);
        // Nothing but the program stays.
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
        let output = Command::new(&built.program).arg(r#"{"benchmark":"dance"}"#).output().unwrap();
        let outcome = Outcome::parse(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(outcome, Ok(Outcome::unsupported("no benchmark dance")));
    }
}
