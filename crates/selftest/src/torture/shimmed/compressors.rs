//! Compressors with threads: blocks in parallel, and others that read, write and add up check sums.

use super::{Launcher, Program, write_text};
use std::path::Path;

fn path(directory: &Path) -> String {
    directory.join("data").to_string_lossy().into_owned()
}

/// Compresses, and decompresses what came of it: that is the data again.
fn there_and_back(
    launcher: &Launcher,
    directory: &Path,
    program: &str,
    there: &[&str],
    back: &[&str],
) -> Result<Vec<u8>, String> {
    let data = path(directory);
    let packed = launcher.run(program, &[there, &[&data]].concat(), None)?;
    let file = directory.join("packed");
    std::fs::write(&file, &packed).map_err(|e| e.to_string())?;
    let unpacked = launcher.run(program, back, Some(&file))?;
    match super::difference(&std::fs::read(data).map_err(|e| e.to_string())?, &unpacked) {
        None => Ok(packed),
        Some(what) => Err(format!("{program} does not give back what it was given: {what}")),
    }
}

pub(super) struct Pigz;

impl Program for Pigz {
    fn name(&self) -> &'static str {
        "pigz"
    }

    fn needs(&self) -> (&'static [&'static str], &'static str) {
        (&["pigz"], "pigz")
    }

    fn prepare(&self, directory: &Path, seed: u64) -> std::io::Result<()> {
        write_text(directory.join("data"), seed, 4 << 20)
    }

    fn run(&self, launcher: &Launcher, directory: &Path) -> Result<Vec<u8>, String> {
        there_and_back(launcher, directory, "pigz", &["-c", "-n", "-p", "4"], &["-d", "-c"])
    }
}

pub(super) struct Xz;

impl Program for Xz {
    fn name(&self) -> &'static str {
        "xz"
    }

    fn needs(&self) -> (&'static [&'static str], &'static str) {
        (&["xz"], "xz-utils")
    }

    fn prepare(&self, directory: &Path, seed: u64) -> std::io::Result<()> {
        write_text(directory.join("data"), seed, 2 << 20)
    }

    fn run(&self, launcher: &Launcher, directory: &Path) -> Result<Vec<u8>, String> {
        let there = ["-c", "-T4", "--block-size=256KiB", "-1"];
        there_and_back(launcher, directory, "xz", &there, &["-d", "-c", "-T4"])
    }
}
