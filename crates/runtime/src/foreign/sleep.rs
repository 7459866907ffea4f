//! Sleeping as the C library's `nanosleep` does, which others may want to interrupt.

use std::sync::OnceLock;
use std::time::Duration;

static SLEEPER: OnceLock<fn(Duration) -> Duration> = OnceLock::new();

/// Makes `nanosleep` and `clock_nanosleep` of user threads call `f`, which sleeps, may unwind, and returns what is left when it has
/// been interrupted. Once in a process.
pub fn set_sleeper(f: fn(Duration) -> Duration) {
    let _ = SLEEPER.set(f);
}

/// Sleeps; returns what is left.
pub(crate) fn sleep(span: Duration) -> Duration {
    match SLEEPER.get() {
        Some(f) => f(span),
        None => {
            crate::time::sleep(span);
            Duration::ZERO
        }
    }
}
