//! `quaver selftest` as users and scripts call it.
#![cfg(feature = "selftest")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");

fn selftest(args: &[&str]) -> Output {
    Command::new(QUAVER).arg("selftest").args(args).output().unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    json_of(Path::new(QUAVER), args)
}

fn json_of(quaver: &Path, args: &[&str]) -> serde_json::Value {
    let args = [&["selftest"], args, &["--json", "-"]].concat();
    let output = Command::new(quaver).args(args).output().unwrap();
    // Differences are told on stderr as well; the whole document would hide them.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_boundary_of_a_short_scenario_is_tried() {
    for workers in ["1", "2"] {
        let report = json(&[
            "boundaries",
            "--only",
            "general-registers",
            "--workers",
            workers,
            "--steps",
            "100000",
        ]);
        let row = &report["rows"][0];
        let (tried, all) =
            (row["boundaries_tried"].as_u64().unwrap(), row["boundaries"].as_u64().unwrap());
        assert!(tried >= 50 && tried >= all, "{tried} of {all}");
        // At a boundary now and then nobody else is there to run: the companions are on the way to
        // the other worker.
        let most = tried - tried / 4;
        assert!(row["preemptions"].as_u64().unwrap() >= most, "{row}");
        assert!(row["states_compared"].as_u64().unwrap() >= most, "{row}");
        assert_eq!(report["differences"], 0, "{report}");
    }
}

#[test]
fn user_interrupts_change_no_result_either() {
    if quaver::platform::user_interrupts().cpu {
        eprintln!("skipped: this processor would not leave user interrupts to the emulator");
        return;
    }
    let only = "general-registers,flags,x87,mxcsr,sse,avx,string-copy,malloc,mutex,signal-handler";
    let report = |how| json(&[how, "--quick", "--only", only]);
    let (told, signalled) = (report("uintr"), report("boundaries"));
    let sum = |name: &str| -> u64 {
        told["rows"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
    };
    assert!(sum("boundaries_tried") >= 2_000, "{told}");
    assert!(sum("preemptions") >= 1_000 && sum("states_compared") >= 1_000, "{told}");
    for report in [told, signalled] {
        assert_eq!(report["differences"], 0, "{report}");
    }
}

#[test]
fn a_boundary_can_be_chosen() {
    let report = json(&["boundaries", "--only", "mutex", "--workers", "1", "--at", "5"]);
    assert_eq!(report["rows"][0]["boundaries_tried"], 1, "{report}");
}

#[test]
fn a_program_keeps_its_answers() {
    let report =
        json(&["torture", "--only", "serde-json", "--workers", "1", "--preemptions", "200"]);
    let row = &report["rows"][0];
    assert!(
        row["preemptions"].as_u64().unwrap() >= 200 && row["steps"].as_u64().unwrap() > 0,
        "{row}"
    );
    assert_eq!(report["differences"], 0, "{report}");
}

#[test]
fn fewer_preemptions_than_asked_for_are_a_failure() {
    let output = selftest(&[
        "torture",
        "--only",
        "serde-json",
        "--workers",
        "1",
        "--seconds",
        "0.1",
        "--preemptions",
        "1000000000",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("fewer than were asked for"), "{said}");
}

#[test]
fn parts_add_up_and_go_on_after_an_interruption() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("parts.json");
    // Counts belong to one build, and somebody may build meanwhile.
    let quaver = directory.path().join("quaver");
    std::fs::copy(QUAVER, &quaver).unwrap();
    let part = |preemptions: &str| {
        let file = file.to_str().unwrap();
        let only = ["torture", "--only", "serde-json,regex", "--workers", "1"];
        let rest = ["--seconds", "0.2", "--preemptions", preemptions, "--add-to", file];
        json_of(&quaver, &[&only[..], &rest[..]].concat());
        let ledger = std::fs::read(file).unwrap();
        serde_json::from_slice::<serde_json::Value>(&ledger).unwrap()
    };
    let first = part("300");
    assert!(first["torture"]["preemptions"].as_u64().unwrap() >= 300, "{first}");
    let second = part("600");
    assert!(second["torture"]["preemptions"].as_u64().unwrap() >= 600, "{second}");
    assert_eq!(second["parts"], 2, "{second}");
    // Enough has been survived: nothing is left to do.
    let third = part("600");
    assert_eq!(third["torture"], second["torture"]);
    let output = selftest(&["boundaries", "--preemptions", "1", "--add-to", "/nonexistent/x"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("only torture"));
}

#[test]
fn what_was_found_until_an_interrupt_is_printed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(["selftest", "torture", "--only", "serde-json,regex", "--workers", "1"]);
    command.args(["--seconds", "600", "--json", "-"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let children = format!("/proc/{id}/task/{id}/children");
    while std::fs::read_to_string(&children).unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(id as i32, libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("SIGINT"), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["interrupted"], &report["differences"]), (&true.into(), &0.into()));
    assert_eq!(report["rows"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["rows"][0]["note"], "interrupted", "{report}");
}

#[test]
fn programs_that_are_not_installed_are_listed() {
    let output = Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["selftest", "torture", "--quick", "--only", "pigz", "--workers", "1", "--json", "-"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &report["rows"][0];
    assert!(row["skipped"].as_str().unwrap().contains("not installed: pigz"), "{row}");
    assert_eq!((&row["preemptions"], &row["differences"]), (&0.into(), &0.into()), "{row}");
}

#[test]
fn what_does_not_exist_is_named() {
    let output = selftest(&["--only", "no-such-thing"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("no-such-thing") && text.contains("--list"),
        "{text}"
    );
}

#[test]
fn a_scene_that_does_not_exist_is_named() {
    let output = selftest(&["share", "--only", "two-queue,solitude"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("'solitude'"), "{text}");
}

#[test]
fn the_list_has_both_kinds() {
    let output = selftest(&["--list"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("mutex-contended") && text.contains("sqlite"), "{text}");
}

/// A job that dies is a difference, and the next one runs.
#[test]
fn a_broken_job_is_a_failure() {
    let output = selftest(&["--child", "{}"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no valid JSON"));
}
