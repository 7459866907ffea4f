//! C and C++: `src/foreign/foreign.cpp`.

use super::{Scenario, mix};
use crate::boundaries::stepper::step;

pub(super) const ALL: &[Scenario] = &[
    Scenario::plain("cpp-throw", throw),
    Scenario::plain("cpp-thread-local", thread_local),
    Scenario::plain("longjmp", longjmp),
    Scenario::plain("snprintf", print),
];

unsafe extern "C" {
    fn quaver_foreign_throw(depth: u64) -> u64;
    fn quaver_foreign_thread_local() -> u64;
    fn quaver_foreign_longjmp(rounds: u64) -> u64;
    fn quaver_foreign_print(seed: u64) -> u64;
}

fn throw() -> u64 {
    // SAFETY: catches what it throws.
    step(|| unsafe { quaver_foreign_throw(2) })
}

/// In a new thread: with its constructor and destructor.
fn thread_local() -> u64 {
    let work = || {
        // SAFETY: no conditions.
        step(|| unsafe { mix(quaver_foreign_thread_local(), quaver_foreign_thread_local()) })
    };
    quaver::spawn(work).join().unwrap_or(0)
}

fn longjmp() -> u64 {
    // SAFETY: jumps within its own frame.
    step(|| unsafe { quaver_foreign_longjmp(3) })
}

fn print() -> u64 {
    // SAFETY: no conditions.
    step(|| unsafe { quaver_foreign_print(42) })
}
