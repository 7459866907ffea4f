#![doc = include_str!("../README.md")]

use quaver::monitor::Monitor;
use quaver_lock::monitor::carriers::Carriers;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI64, AtomicU32};
use std::sync::{Mutex, PoisonError};

/// The kernel program's page and bell, as the runtime wants them.
struct Seen(Carriers);

impl Monitor for Seen {
    fn states(&self) -> &[AtomicU32] {
        self.0.states()
    }

    fn away(&self) -> &AtomicI64 {
        self.0.away()
    }

    fn bell(&self) -> BorrowedFd<'_> {
        self.0.bell()
    }

    fn silence(&self) {
        self.0.silence();
    }
}

/// Runtimes of this process that want a monitor get it from `quaver lockd`, or where nobody answers
/// there, and the feature `host` is on, from a program that this process loads.
pub fn provide() {
    quaver::monitor::provide(|| find(Carriers::watch));
}

/// As [`provide`], but from `quaver lockd` only: for programs that are not ours, which may close
/// descriptors that they do not know.
pub fn provide_by_lockd() {
    quaver::monitor::provide(|| find(Carriers::watch_by_lockd));
}

/// One for all runtimes of this process, one after the other.
fn find(
    watch: fn() -> Result<Carriers, quaver_lock::monitor::Absent>,
) -> Result<&'static dyn Monitor, String> {
    static FOUND: Mutex<Option<&'static Seen>> = Mutex::new(None);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(seen) = *found {
        return Ok(seen);
    }
    let seen: &'static Seen = Box::leak(Box::new(Seen(watch().map_err(|e| e.to_string())?)));
    Ok(*found.insert(seen))
}
