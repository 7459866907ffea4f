//! `quaver demo` as users and scripts call it. Runs are short; what they measure is not judged.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A demo that measures one round of two loads in both modes within a second or two, into `out`.
fn demo(out: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(["demo", "--keys", "2000", "--scan-keys", "200", "--rounds", "1"]);
    command.args(["--duration", "100ms", "--loads", "2,20", "--out"]).arg(out).args(args);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The tests below start runtimes that pin their workers: one after the other.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn a_run_writes_report_and_json_and_prints_the_table() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new/report");
    let json = directory.path().join("result.json");
    let output = demo(&out, &["--json", json.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));

    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["run to completion", "signals", "GET p50", "SCAN p50", "reemption"] {
        assert!(text.contains(part), "{part} is missing from\n{text}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(std::fs::read(out.join("report.json")).unwrap(), std::fs::read(&json).unwrap());
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row["get"]["count"].as_u64().unwrap() > 0, "{row}");
    }
    let loads = &report["summary"]["slo_load_percent"];
    assert!(loads["run_to_completion"].is_number() && loads["preemptive"].is_number(), "{loads}");
    assert!(report["summary"]["verdict"].as_str().unwrap().len() > 20);

    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    assert_eq!(html.matches("<svg").count(), 2);
    for curves in ["get.svg", "scan.svg"] {
        let svg = std::fs::read_to_string(out.join(curves)).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("prefers-color-scheme: dark"), "{svg}");
    }
    // No temporary file stays.
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 4);
}

#[test]
fn json_on_standard_output_is_all_there_is() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let output =
        demo(directory.path(), &["--json", "-", "--modes", "preemptive"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["summary"]["slo_load_percent"]["run_to_completion"].is_null());
    assert_eq!(report["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn each_clock_serves() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for clock in ["timer-thread", "posix-timer", "timer-core"] {
        let args = ["--json", "-", "--modes", "preemptive", "--clock", clock, "--loads", "10"];
        let output = demo(directory.path(), &args).output().unwrap();
        assert!(output.status.success(), "{clock}: {}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["settings"]["clock"], clock);
    }
}

#[test]
fn each_arrival_process_and_an_extreme_mix_serve() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for args in [
        ["--arrivals", "uniform", "--mix", "100/0"],
        ["--arrivals", "batch=8", "--mix", "50/50"],
        ["--arrivals", "onoff=5ms/5ms", "--mix", "0/100"],
    ] {
        let output = demo(directory.path(), &args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn bad_values_are_refused_at_once_and_leave_nothing_behind() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("report");
    for (args, code, part) in [
        (["--workers", "0"], 1, "--workers: 0 workers, but accepted are 1 to"),
        (["--workers", "4000"], 1, "accepted are 1 to"),
        (["--quantum", "1us"], 1, "quantum of 1us"),
        (["--quantum", "0s"], 2, "1us to 1s"),
        (["--policy", "fifo"], 1, "never preempts"),
        (["--policy", "two-queue:speed=9"], 2, "allowed keys"),
        (["--mix", "1/2"], 2, "95/5"),
        (["--loads", "95..10:5"], 2, "not below the start"),
        (["--scan-keys", "3000"], 1, "--keys"),
    ] {
        let output = demo(&out, &args).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains(part), "{args:?}: {message}");
        assert!(!out.exists(), "{args:?} left {out:?} behind");
    }
}

#[test]
fn places_that_cannot_be_written_are_found_before_measuring() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = demo(&file.join("out"), &["--duration", "600s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("file/out"), "{}", stderr(&output));

    let out = directory.path().join("out");
    let missing = directory.path().join("no/such/file.json");
    let args = ["--duration", "600s", "--json", missing.to_str().unwrap()];
    let output = demo(&out, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no/such/file.json"), "{}", stderr(&output));
    assert!(!out.exists());
}

#[test]
fn a_full_disk_for_the_json_is_reported() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let output = demo(directory.path(), &["--json", "/dev/full"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.contains("/dev/full") && message.contains("space"), "{message}");
}

#[test]
fn signals_end_a_run_cleanly() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    // Loading five million rows takes an unoptimised build minutes.
    for (signal, code, name, args, when) in [
        (libc::SIGINT, 130, "SIGINT", &["--duration", "600s"], ""),
        (libc::SIGTERM, 143, "SIGTERM", &["--duration", "600s"], ""),
        (libc::SIGTERM, 143, "SIGTERM", &["--keys", "5000000"], "while loading"),
    ] {
        let out = directory.path().join("report");
        let mut child =
            demo(&out, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The handlers are in place before the directory is made.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !out.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(child.id() as i32, signal) };
        let status = child.wait().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(status.code(), Some(code), "{}", stderr(&output));
        let message = stderr(&output);
        assert!(message.contains(name) && message.contains(when), "{message}");
        assert!(message.contains("no report was written"), "{message}");
        assert!(!out.exists(), "{out:?} stayed behind");
    }
}

#[test]
fn a_kill_leaves_no_file_behind() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("report");
    let mut child = demo(&out, &["--duration", "600s"]).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !out.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "the store is in memory only");
}
