//! Compiles workloads, and says what is skipped.

#![allow(dead_code)] // no test uses all of it

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a file of `workloads/` or `tests/programs/` into `to`. Nothing if there is no C
/// compiler.
pub fn compile(source: &str, options: &[&str], to: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let program = to.join(source.file_stem().unwrap());
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-static", "-no-pie", "-fno-stack-protector", "-Wall", "-Wextra", "-Werror"]);
    gcc.args(options).arg("-o").arg(&program).arg(&source).arg("-lgcc");
    let Ok(output) = gcc.output() else {
        skipped("there is no gcc");
        return None;
    };
    assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Says that a test, or a part of it, does not run. `println!` would keep that from who sees it
/// pass.
pub fn skipped(why: impl Display) {
    // Nobody to tell if it cannot be written.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Options for programs without a C library.
pub const ALONE: &[&str] = &["-nostdlib", "-ffreestanding", "-muintr"];
