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

    let output = run(&[endless.to_str().unwrap(), "--mechanism", "tracked", "--timer", "soon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("5us"), "{}", text(&output.stderr));
    let (json, wrong) = (folder.path().join("run.json"), folder.path().join("wrong.toml"));
    fs::write(&wrong, "frequency = 1").unwrap();
    let wrong = wrong.to_str().unwrap();
    let output = run(&[endless.to_str().unwrap(), "--mechanism", "none", "--parameters", wrong]);
    assert!(text(&output.stderr).contains("missing field"), "{}", text(&output.stderr));

    let output = run(&["--limit", "1000", "--mechanism", "none", endless.to_str().unwrap()]);
    assert!(text(&output.stderr).contains("1000 instructions"), "{}", text(&output.stderr));
    assert!(!json.exists());
}

#[test]
fn interrupts_cost_cycles_on_the_timing_model() {
    let folder = tempfile::tempdir().unwrap();
    let code = "mov $200000, %ecx\n1: imul %eax, %eax\ndec %ecx\njnz 1b\n\
        mov $60, %eax\nmov $7, %edi\nsyscall";
    let program = program(folder.path(), code);
    let (json, view) = (folder.path().join("run.json"), folder.path().join("pipeline.log"));
    let each = |mechanism: &str, source: &str| {
        let output = run(&[
            program.to_str().unwrap(),
            "--mechanism",
            mechanism,
            "--source",
            source,
            "--timer",
            "5us",
            "--json",
            json.to_str().unwrap(),
            "--kanata",
            view.to_str().unwrap(),
            "--cycles",
            "9000..11000",
        ]);
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!(report["model"], "timing");
        assert_eq!(report["instructions"], 600_004);
        assert!(report["interrupts"].as_u64().unwrap() > 50, "{report}");
        assert!(fs::read_to_string(&view).unwrap().contains("imul"));
        report["cycles_per_interrupt"].as_f64().unwrap()
    };
    let [flush, tracked, timer] =
        [("flush", "uipi"), ("tracked", "uipi"), ("tracked", "kb-timer")].map(|(m, s)| each(m, s));
    // The chain of products hides most of the remote line that UIPI fetches.
    assert!(flush > 1.5 * tracked && tracked > timer, "{flush} {tracked} {timer}");
}
