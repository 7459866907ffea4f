//! What the runtime's test programs share.
//!
//! * [`setup`]: runtimes of all kinds, one at a time, each shut down and checked.
//! * [`work`]: work that is bounded by what was done and not by time.
//! * [`drops`]: values that count how often they are dropped.
//! * [`registers`]: holding values in registers.
//! * [`child`]: running a part of a test in a process of its own.
//! * [`gdb`]: looking at such a process.
//! * [`kernel`]: files whose calls wait in the kernel.
//! * [`identity`]: what the standard library calls a thread.
//! * [`library`]: libraries that are compiled and loaded.
//! * [`signals`]: handlers of a test's own.

#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

pub mod child;
pub mod drops;
pub mod gdb;
pub mod identity;
pub mod kernel;
pub mod library;
pub mod registers;
pub mod setup;
pub mod signals;
mod watchdog;
pub mod work;

pub use setup::{Setup, on_runtime, with_runtime};
pub use signals::install_handler;
pub use work::{Rng, spin, stats, until, until_preempted, until_preempted_again};

/// Has the long form of the tests been asked for?
pub fn full() -> bool {
    std::env::var_os("QUAVER_TEST_FULL").is_some()
}

/// Panics whose text contains one of these are part of a test.
const EXPECTED: [&str; 4] = [
    "(expected)",
    "a scoped user thread panicked",
    "cannot spawn a user thread",
    "cannot run on the",
];

/// Keeps panics that are part of a test off the terminal. Those of user threads are not captured as
/// others are.
pub fn quiet_expected_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload_as_str().unwrap_or_default();
            if !EXPECTED.iter().any(|e| text.contains(e)) {
                report(info);
            }
        }));
    });
}
