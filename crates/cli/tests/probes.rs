//! `quaver probes report` as users and scripts call it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use quaver_probes::note::Note;

fn report(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["probes", "report"])
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A library of two objects with these notes.
fn library(folder: &Path, notes: [Note; 2]) -> String {
    let library = folder.join("library.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-nostdlib", "-o"]).arg(&library);
    for (number, note) in notes.into_iter().enumerate() {
        let path = folder.join(format!("{number}.s"));
        fs::write(&path, format!("f{number}:\tret\n{}", note.text())).unwrap();
        command.arg(path);
    }
    assert!(command.status().unwrap().success());
    library.to_str().unwrap().to_owned()
}

#[test]
fn notes_are_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let one = Note { loops: 3, probes: 1200, instructions: 4000, ..Note::default() };
    let other = Note { loops: 2, probes: 34, added_instructions: 1000, ..Note::default() };
    let library = library(folder.path(), [one, other]);
    let output = report(&[&library]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("1,234") && table.contains("+25.0 %"), "{table}");

    let output = report(&[&library, &library, "--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let binaries = json["binaries"].as_array().unwrap();
    assert_eq!(binaries.len(), 2);
    let of = |key: &str| binaries[1][key].as_u64().unwrap();
    assert_eq!((of("objects"), of("loops"), of("probes")), (2, 5, 1234));
    assert_eq!(binaries[1]["binary"], *library);

    let archive = folder.path().join("archive.a");
    let mut command = Command::new("ar");
    command.arg("rc").args([&archive, Path::new(&library), &folder.path().join("0.s")]);
    assert!(command.status().unwrap().success());
    let output = report(&[archive.to_str().unwrap()]);
    assert!(text(&output.stdout).contains("1,234"), "{}", text(&output.stderr));
}

#[test]
fn files_without_probes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path(), [Note::default(); 2]);
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (file, why) in [
        (readme, "not a 64-bit ELF file"),
        ("/bin/sh", "built without probes"),
        ("no-such-file", "No such file"),
        ("/", "Is a directory"),
    ] {
        let output = report(&[file, &library]);
        assert_eq!(output.status.code(), Some(1), "{file}");
        let message = text(&output.stderr);
        assert!(message.contains(why) && message.contains(file), "{message}");
        // The other one is there all the same.
        assert!(text(&output.stdout).contains("library.so"), "{file}");
    }
}
