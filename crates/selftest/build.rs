//! Compiles the scenarios that only C++ can express, and the interpreter of the fuzzer's programs.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/foreign/foreign.cpp");
    cc::Build::new()
        .cpp(true)
        .file("src/foreign/foreign.cpp")
        .warnings_into_errors(true)
        .compile("quaver_foreign");
    interpreter();
}

/// A program, which this crate carries with it.
fn interpreter() {
    let folder = PathBuf::from("src/fuzz/interpreter");
    println!("cargo::rerun-if-changed={}", folder.display());
    let parts =
        ["main", "locks", "waits", "signals", "timers", "files", "sockets", "messages", "threads"];
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("fuzz");
    let mut compiler = cc::Build::new().opt_level(2).get_compiler().to_command();
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&out);
    compiler.args(parts.iter().map(|part| folder.join(format!("{part}.c"))));
    match compiler.status() {
        Ok(status) if status.success() => {}
        other => panic!("cannot compile the interpreter of the fuzzer's programs: {other:?}"),
    }
}
