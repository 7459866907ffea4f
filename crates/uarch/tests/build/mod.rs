//! Compiles workloads.

#![allow(dead_code)] // no test uses all of it

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
        println!("skipped: there is no gcc");
        return None;
    };
    assert!(output.status.success(), "{source:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Options for programs without a C library.
pub const ALONE: &[&str] = &["-nostdlib", "-ffreestanding", "-muintr"];
