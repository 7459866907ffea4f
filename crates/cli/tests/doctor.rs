//! `quaver doctor` as users and scripts call it.

use std::process::{Command, Output};

fn quaver(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quaver")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_report_for_people_has_all_parts() {
    let output = quaver(&["doctor"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    for part in ["Machine", "User threads", "Preemption", "Rights and limits", "What would be used"]
    {
        assert!(text.contains(part), "{part} is missing from\n{text}");
    }
    assert!(text.contains("Quaver runs here"), "{text}");
}

#[test]
fn json_goes_to_standard_output_and_parses() {
    for args in [&["doctor", "--json"][..], &["doctor", "--json", "-"]] {
        let output = quaver(args);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["possible"], true);
        assert!(report["facts"]["cpus"]["allowed"].as_array().is_some_and(|cpus| !cpus.is_empty()));
        let names: Vec<_> =
            report["choice"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        for name in ["clock", "notification", "workers", "quantum"] {
            assert!(names.contains(&&serde_json::json!(name)), "{name} is missing");
        }
        let interrupts = &report["facts"]["user_interrupts"];
        for name in ["cpu", "module", "usable"] {
            assert!(interrupts[name].is_boolean(), "{name}: {interrupts}");
        }
        assert_eq!(interrupts["usable"], !interrupts["kernel_abi"].is_null(), "{interrupts}");
        assert!(interrupts["why"].as_str().is_some_and(|why| !why.is_empty()));
    }
}

#[test]
fn json_goes_to_a_file_and_a_bad_place_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("doctor.json");
    let output = quaver(&["doctor", "--json", file.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty());
    let text = std::fs::read(&file).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok());

    let bad = directory.path().join("no/such/place");
    let output = quaver(&["doctor", "--json", bad.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("no/such/place"), "{message}");
}

#[test]
fn a_full_disk_is_reported() {
    let output = quaver(&["doctor", "--json", "/dev/full"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("/dev/full") && message.contains("space"), "{message}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_quaver"))
        .arg("doctor")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn help_and_unknown_commands() {
    let help = quaver(&["--help"]);
    for command in ["doctor", "demo", "bench"] {
        assert!(stdout(&help).contains(command));
    }
    assert_eq!(quaver(&["cure"]).status.code(), Some(2));
}
