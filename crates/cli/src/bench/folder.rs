//! A folder that is gone when the command is, also by Ctrl-C or a request to terminate.

use std::fs;
use std::path::Path;
use std::process;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

/// The folder.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// Makes it. From now on a thread of its own obeys these signals: it removes the folder and
    /// ends the process, and with that its children.
    ///
    /// # Errors
    ///
    /// There is no place for temporary files, or the kernel refuses a handler.
    pub fn new() -> anyhow::Result<Folder> {
        let folder = tempfile::Builder::new().prefix("quaver-bench-").tempdir();
        let folder = folder.context("cannot make a temporary folder")?;
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let path = folder.path().to_owned();
        thread::Builder::new().name("remover".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                remove(&path);
                process::exit(128 + signal);
            }
        })?;
        Ok(Folder(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Compilers that are about to end may still write into it.
fn remove(path: &Path) {
    for _ in 0..20 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
}
