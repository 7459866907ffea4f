//! Random C programs, written by csmith: no undefined behaviour, and a checksum of all globals at
//! the end, if they have one. Of a loop that never ends clang makes nothing, and such a program
//! runs into whatever lies behind it.

use super::builds::{Build, LEVELS};
use super::compare::Printed;
use super::source::{Language, Source};
use std::io::{Error, Result};
use std::path::Path;
use std::process::{Command, Stdio};

/// The program.
const CSMITH: &str = "csmith";

/// Where Debian has its headers.
const HEADERS: [&str; 2] = ["/usr/include/csmith", "/usr/include/csmith-2.3.0"];

/// Says what is missing, if so.
///
/// # Errors
///
/// That.
pub fn check() -> Result<()> {
    // This, too, leaves a file where it runs.
    let folder = tempfile::tempdir()?;
    if super::toolchain::says_its_version(Command::new(CSMITH).current_dir(folder.path())) {
        return Ok(());
    }
    Err(Error::other("random programs are written by csmith: apt-get install csmith"))
}

/// Program `seed`, which goes to `place`. Each is built in one way.
///
/// # Errors
///
/// csmith fails.
pub fn build(seed: u64, compilers: &[String], place: &Path) -> Result<Build> {
    let path = place.join(format!("random{seed}.c"));
    let mut command = Command::new(CSMITH);
    // It leaves a file `platform.info` where it runs.
    command.current_dir(place).stdin(Stdio::null());
    command.args(["--seed", &seed.to_string(), "--output"]).arg(&path);
    let output = command.output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::other(format!("{CSMITH} --seed {seed}: {} {words}", output.status)));
    }
    let way = seed as usize;
    let mut flags = Vec::new();
    for folder in HEADERS.iter().filter(|folder| Path::new(folder).is_dir()) {
        flags.extend(["-I".to_owned(), (*folder).to_owned()]);
    }
    Ok(Build {
        source: Source {
            name: format!("random{seed}"),
            text: std::fs::read_to_string(&path)?.into(),
            language: Language::C,
            flags,
            scaled: false,
        },
        compiler: compilers[way % compilers.len()].clone(),
        level: LEVELS[way / compilers.len() % LEVELS.len()],
        scale: 1.0,
    })
}

/// Has a plain program come to its end?
pub fn has_ended(printed: &Printed) -> bool {
    printed.succeeded && printed.output.starts_with(b"checksum = ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_has_a_checksum() {
        let printed = |succeeded, output: &str| Printed {
            status: String::new(),
            succeeded,
            output: output.into(),
            errors: String::new(),
        };
        assert!(has_ended(&printed(true, "checksum = 5F2A\n")));
        assert!(!has_ended(&printed(true, "")));
        assert!(!has_ended(&printed(false, "checksum = 5F2A\n")));
    }
}
