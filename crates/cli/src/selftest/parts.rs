//! Torture in parts: a file that adds up what one build has survived over several runs.
//!
//! The file is rewritten as a whole after every job, so a run that is killed loses one job's counts
//! at most. Counts of different builds do not add up: the file names the build that wrote it, and
//! another one refuses it.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use quaver_selftest::Outcome;
use serde::{Deserialize, Serialize};

use super::report::Sums;
use crate::output;

/// The sums so far and where they are kept.
pub(super) struct Parts {
    path: PathBuf,
    ledger: Ledger,
}

/// What is in the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ledger {
    /// Identifies the build.
    build: String,
    /// Runs that have begun.
    parts: u64,
    /// What all of them have counted.
    torture: Sums,
}

impl Parts {
    /// Reads the file, or begins a new one, and counts one more part.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, is not one of these, or belongs to another build.
    pub(super) fn open(path: &Path) -> anyhow::Result<Parts> {
        Self::open_as(path, this_build()?)
    }

    fn open_as(path: &Path, build: String) -> anyhow::Result<Parts> {
        let named = || path.display().to_string();
        let mut ledger = match std::fs::read(path) {
            Ok(text) => serde_json::from_slice::<Ledger>(&text).with_context(|| {
                format!("{} has no counts of `quaver selftest --add-to`", named())
            })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Ledger { build: build.clone(), ..Ledger::default() }
            }
            Err(e) => return Err(e).with_context(|| format!("cannot read {}", named())),
        };
        if ledger.build != build {
            bail!(
                "{} holds counts of another build of quaver, which do not add up with this one's; \
                 remove it to begin anew",
                named()
            );
        }
        ledger.parts += 1;
        let parts = Parts { path: path.into(), ledger };
        parts.save()?;
        Ok(parts)
    }

    /// Which part this is, from 1.
    pub(super) fn number(&self) -> u64 {
        self.ledger.parts
    }

    /// What all parts have counted.
    pub(super) fn sums(&self) -> &Sums {
        &self.ledger.torture
    }

    /// Adds a job of torture.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(super) fn add(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        self.ledger.torture.add(outcome);
        self.save()
    }

    fn save(&self) -> anyhow::Result<()> {
        output::write_file(&self.path, &serde_json::to_vec_pretty(&self.ledger)?)
    }
}

/// A digest of the running executable.
fn this_build() -> anyhow::Result<String> {
    let path = std::env::current_exe().context("cannot find this executable")?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    Ok(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survived(preemptions: u64) -> Outcome {
        let mut outcome = Outcome::new("sqlite", 1);
        outcome.counts.preemptions = preemptions;
        outcome
    }

    #[test]
    fn parts_add_up_for_one_build() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("parts.json");
        for part in 1..4 {
            let mut parts = Parts::open_as(&path, "one".into()).unwrap();
            assert_eq!((parts.number(), parts.sums().preemptions), (part, 10 * (part - 1)));
            parts.add(&survived(4)).unwrap();
            parts.add(&survived(6)).unwrap();
        }
        let error = Parts::open_as(&path, "other".into()).err().unwrap().to_string();
        assert!(error.contains("parts.json") && error.contains("remove it"), "{error}");
    }

    #[test]
    fn another_file_is_refused_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        std::fs::write(&path, "mine").unwrap();
        let error = Parts::open(&path).err().unwrap().to_string();
        assert!(error.contains("notes.txt"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
