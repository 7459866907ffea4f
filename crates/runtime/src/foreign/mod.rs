//! What interfaces for other languages are built from: `quaver-capi` and `quaver-shim`.
//!
//! Not for programs, and without promises about its stability: use the crate's public interface, or
//! `quaver.h`.
//!
//! The synchronisation objects here are the algorithms of C: each lives in a few 32-bit words that
//! the caller owns, is ready when they are zero, has no destructor, and can be waited for with a
//! limit ([`futex::Limits`]): a deadline, or an interruption such as the cancellation of a thread.
//! User threads and kernel threads may share any of them. A thread may be preempted anywhere in
//! them: whoever meets its traces waits as a user thread.
//!
//! Like those of the C library, they are not fair: a woken thread competes with those that come by.
//! Rust programs have better ones in [`crate::sync`].
//!
//! Nothing in the rest of the crate comes from here: what it needs itself is elsewhere, and is only
//! named here again.

// With `--cfg loom` only what has a model is compiled; with `--cfg shuttle` what is simulated, too.
pub mod barrier;
#[cfg(not(loom))]
pub mod blocking;
#[cfg(not(loom))]
pub mod calls;
#[cfg(any(not(loom), all(test, shuttle)))]
pub mod condvar;
#[cfg(not(loom))]
pub mod confined;
#[cfg(not(loom))]
pub mod files;
#[cfg(any(not(loom), all(test, shuttle)))]
pub mod futex;
#[cfg(any(not(loom), all(test, shuttle)))]
pub mod lock;
#[cfg(not(loom))]
pub mod names;
#[cfg(not(loom))]
pub mod once;
#[cfg(not(loom))]
pub mod overlay;
#[cfg(not(loom))]
pub mod preempt;
#[cfg(not(loom))]
pub mod region;
#[cfg(any(not(loom), all(test, shuttle)))]
pub mod rwlock;
#[cfg(any(not(loom), all(test, shuttle)))]
pub mod semaphore;
#[cfg(not(loom))]
pub mod sys;
#[cfg(not(loom))]
pub mod thread;
#[cfg(not(loom))]
pub mod watch;

#[cfg(not(loom))]
pub use crate::interpose::{everywhere, pthread, raw_calls, sleep};
#[cfg(not(loom))]
pub use crate::os::{fork, reserved};

#[cfg(all(test, not(loom)))]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The lines of code in a folder, and in those below, that name this module.
    fn uses(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // What is simulated there are these algorithms.
            let simulation = path.with_extension("").ends_with("sync/fairness");
            if path.ends_with("src/foreign") || simulation {
                continue;
            }
            if path.is_dir() {
                uses(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let named = code.filter(|line| line.contains("foreign::"));
                found.extend(named.map(|line| format!("{}: {line}", path.display())));
            }
        }
    }

    #[test]
    fn the_rest_of_the_crate_does_not_use_it() {
        let mut found = Vec::new();
        uses(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }
}
