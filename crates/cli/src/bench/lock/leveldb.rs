//! LevelDB's db_bench, which no package has: built once from Debian's source package, into this
//! command's cache.
//!
//! The sources come by `apt-get source` from where the system's packages come from, with lists of
//! our own: nothing of the system changes, and apt checks their signatures. db_bench includes a
//! header of LevelDB's tests, of which it uses random strings only; a stand-in for the test library
//! serves for that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::cache;

/// The variable with the path of another one.
const VARIABLE: &str = "LEVELDB_BENCH";
/// Where apt's sources are.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];
/// What is built, and what of it is left out.
const PARTS: [&str; 3] = ["db", "table", "util"];
const LEFT_OUT: [&str; 3] = ["_test.cc", "leveldbutil.cc", "env_windows.cc"];
/// In place of the test library.
const STAND_INS: [(&str, &str); 2] = [
    ("gmock/gmock.h", "#define MATCHER(name, text) template <class T> bool name(const T &arg)\n"),
    (
        "gtest/gtest.h",
        "namespace testing {\nstruct UnitTest {\n    static UnitTest *GetInstance() { static \
         UnitTest one; return &one; }\n    int random_seed() const { return 301; }\n};\n}\n",
    ),
];

/// Where it is. If it is nowhere and `build`, builds it, which takes about a minute.
///
/// # Errors
///
/// Why there is none, for people.
pub fn find(build: bool) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        return match path.is_file() {
            true => Ok(path),
            false => Err(format!("{VARIABLE}: there is no {}", path.display())),
        };
    }
    let folder = cache::folder().join("leveldb");
    let built = folder.join("db_bench");
    if built.is_file() {
        return Ok(built);
    }
    if !build {
        return Err(format!(
            "it is built from Debian's source package without --quick; or set {VARIABLE} to one"
        ));
    }
    eprintln!("building LevelDB's db_bench in {}, once; a minute or two", folder.display());
    make(&folder, &built)
        .map_err(|why| format!("it cannot be built ({why:#}); set {VARIABLE} to a db_bench"))?;
    Ok(built)
}

/// Builds it beside `to`, which comes to be at the end only.
fn make(folder: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let work = tempfile::Builder::new().prefix("build-").tempdir_in(folder)?;
    let tree = fetch(work.path())?;
    for (name, text) in STAND_INS {
        let path = work.path().join("stand-ins").join(name);
        fs::create_dir_all(path.parent().expect("in a folder"))?;
        fs::write(path, text)?;
    }
    let mut compile = Command::new("c++");
    compile
        .current_dir(&tree)
        .args(["-std=c++17", "-O2", "-DNDEBUG", "-w", "-pthread"])
        .args(["-DLEVELDB_PLATFORM_POSIX=1", "-DHAVE_FDATASYNC=1", "-DHAVE_O_CLOEXEC=1"])
        .args(["-I.", "-Iinclude", "-I../stand-ins", "-o", "../db_bench"])
        .args(["benchmarks/db_bench.cc"]);
    for part in PARTS {
        for entry in fs::read_dir(tree.join(part))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_built(&name) {
                compile.arg(Path::new(part).join(name));
            }
        }
    }
    succeed(&mut compile)?;
    fs::rename(work.path().join("db_bench"), to)?;
    Ok(())
}

fn is_built(name: &str) -> bool {
    name.ends_with(".cc") && !LEFT_OUT.iter().any(|end| name.ends_with(end))
}

/// The unpacked sources.
fn fetch(work: &Path) -> anyhow::Result<PathBuf> {
    let parts = work.join("parts");
    for folder in [&parts, &work.join("lists/partial"), &work.join("cache/archives/partial")] {
        fs::create_dir_all(folder)?;
    }
    let mut some = 0;
    for path in SOURCES.iter().flat_map(|at| files_of(Path::new(at))) {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let of_sources = match name.rsplit_once('.') {
            Some((_, "list")) => lines(&text),
            Some((_, "sources")) => stanzas(&text),
            _ => continue,
        };
        fs::write(parts.join(name), of_sources)?;
        some += 1;
    }
    ensure!(some > 0, "this system has no sources of apt");
    let apt = || {
        let mut apt = Command::new("apt-get");
        for (option, path) in [
            ("Dir::Etc::SourceParts", "parts"),
            ("Dir::State::Lists", "lists"),
            ("Dir::Cache", "cache"),
        ] {
            apt.arg("-o").arg(format!("{option}={}", work.join(path).display()));
        }
        apt.args(["-o", "Dir::Etc::SourceList=/dev/null", "-o", "APT::Sandbox::User=root", "-q"]);
        apt.current_dir(work);
        apt
    };
    // A source that has no sources is no obstacle.
    let update = succeed(apt().arg("update"));
    if let Err(why) = succeed(apt().args(["source", "leveldb"])) {
        return Err(update.err().unwrap_or(why));
    }
    let mut trees = files_of(work).into_iter().filter(|path| path.join("benchmarks").is_dir());
    trees.next().context("apt-get source has unpacked nothing")
}

/// A file itself, or what a folder holds.
fn files_of(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Of a `.list`: each line of packages names sources instead.
fn lines(text: &str) -> String {
    let of_packages = text.lines().filter_map(|line| line.trim().strip_prefix("deb"));
    of_packages
        .filter(|rest| rest.starts_with([' ', '\t']))
        .map(|rest| format!("deb-src{rest}\n"))
        .collect()
}

/// The same of a `.sources`.
fn stanzas(text: &str) -> String {
    let types = |line: &str| match line.to_ascii_lowercase().starts_with("types:") {
        true => "Types: deb-src\n".to_owned(),
        false => format!("{line}\n"),
    };
    text.lines().map(types).collect()
}

/// Runs a command to its end.
///
/// # Errors
///
/// It is not there, or fails: with its last line.
fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    bail!("{name}: {}; {last}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_named_where_packages_are() {
        let list = "# deb http://a b c\ndeb http://a b c\ndeb-src http://a b c\n\tdeb\t[x=y] d e\n";
        assert_eq!(lines(list), "deb-src http://a b c\ndeb-src\t[x=y] d e\n");
        let stanza = "Types: deb\nURIs: http://a\n\ntypes: deb deb-src\nSuites: b\n";
        let wanted = "Types: deb-src\nURIs: http://a\n\nTypes: deb-src\nSuites: b\n";
        assert_eq!(stanzas(stanza), wanted);
    }

    #[test]
    fn tests_are_not_built() {
        assert!(is_built("db_impl.cc") && is_built("testutil.cc"));
        assert!(!is_built("db_test.cc") && !is_built("leveldbutil.cc") && !is_built("db_impl.h"));
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let error = succeed(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("exit status: 3; no"), "{error}");
        let missing = succeed(&mut Command::new("no-such-command-at-all")).unwrap_err();
        assert!(format!("{missing:#}").contains("cannot start no-such-command"), "{missing:#}");
    }
}
