//! `quaver core run` as users and scripts call it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quaver")).args(["core", "run"]).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A static program that executes `code`.
fn program(folder: &Path, code: &str) -> PathBuf {
    let (source, program) = (folder.join("program.s"), folder.join("program"));
    fs::write(&source, format!(".globl _start\n_start:\n{code}\n")).unwrap();
    let mut command = Command::new("cc");
    command.args(["-static", "-no-pie", "-nostdlib", "-o"]).arg(&program).arg(&source);
    assert!(command.status().unwrap().success());
    program
}

#[test]
fn a_program_runs_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let code = "mov $60, %eax\nmov $7, %edi\nsyscall";
    let (program, json) = (program(folder.path(), code), folder.path().join("run.json"));
    let output = run(&[program.to_str().unwrap(), "--json", json.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(report["instructions"], 3);
    assert_eq!(report["status"], 7);
    assert_eq!(report["model"], "functional");
}

#[test]
fn what_cannot_run_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let endless = program(folder.path(), "jmp _start");
    let output = run(&["--limit", "1000", endless.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("1000 instructions"), "{}", text(&output.stderr));

    let output = run(&["/bin/sh"]);
    assert!(text(&output.stderr).contains("-static"), "{}", text(&output.stderr));

    let output = run(&[endless.to_str().unwrap(), "--mechanism", "tracked"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("timing model"), "{}", text(&output.stderr));
}
