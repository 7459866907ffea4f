//! Compiles a program for the kernel (BPF) by clang: for build scripts.
//!
//! Without clang a package builds all the same. Then the program is empty, and whoever wants to
//! load it is told at run time.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debug information says what the maps are. The processor's version is that of Linux 5.1.
const OPTIONS: [&str; 8] = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c"];

/// Lines of clang's complaints that are shown.
const LINES: usize = 10;

/// Compiles `source`, which is relative to the package, to the file `object` in cargo's `OUT_DIR`,
/// by `clang` or what the environment variable `CLANG` says. The file is empty if there is no such
/// program, or if it fails; then cargo shows why.
///
/// # Panics
///
/// Outside a build script; the file cannot be written.
pub fn compile(source: &str, object: &str) {
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    for folder in watched(Path::new(&clang)) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join(object);
    for line in compile_by(Path::new(&clang), Path::new(source), &object) {
        println!("cargo::warning={line}");
    }
}

/// If `clang` is missing: the folders of the system where it would be installed. Cargo builds again
/// once something is.
fn watched(clang: &Path) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    if clang.is_absolute() || folders.iter().any(|folder| folder.join(clang).is_file()) {
        return Vec::new();
    }
    let is_systems = |folder: &PathBuf| folder.starts_with("/usr") && folder.is_dir();
    folders.into_iter().filter(is_systems).collect()
}

/// What clang has said if it has failed; nothing if it is missing.
fn compile_by(clang: &Path, source: &Path, object: &Path) -> Vec<String> {
    let run = Command::new(clang).args(OPTIONS).arg(source).arg("-o").arg(object).output();
    let why = match run {
        Ok(output) if output.status.success() => return Vec::new(),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(_) => String::new(),
    };
    fs::write(object, []).expect("cargo's output directory is writable");
    if why.is_empty() {
        return Vec::new();
    }
    let what = format!("left out: clang cannot compile {}", source.display());
    std::iter::once(what).chain(why.lines().take(LINES).map(Into::into)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_compiled_is_empty() {
        let folder = env::temp_dir().join(format!("quaver-bpf-build-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (source, object) = (folder.join("program.c"), folder.join("program.o"));
        fs::write(&source, "int x;\n").unwrap();
        assert!(compile_by(Path::new("/nonexistent/clang"), &source, &object).is_empty());
        assert!(watched(Path::new("no-such-compiler")).contains(&"/usr/bin".into()));
        assert!(watched(Path::new("cargo")).is_empty());
        assert_eq!(fs::read(&object).unwrap(), []);
        // It accepts everything, and makes nothing.
        fs::write(&object, "before").unwrap();
        assert!(compile_by(Path::new("true"), &source, &object).is_empty());
        assert_eq!(fs::read(&object).unwrap(), b"before");
        if Command::new("clang").arg("--version").output().is_ok() {
            let said = |text: &str| {
                fs::write(&source, text).unwrap();
                compile_by(Path::new("clang"), &source, &object)
            };
            assert_eq!(said("int x;\n"), Vec::<String>::new());
            assert!(fs::read(&object).unwrap().starts_with(b"\x7fELF"));
            assert!(said("no C\n").join("\n").contains("left out"));
            assert_eq!(fs::read(&object).unwrap(), []);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
