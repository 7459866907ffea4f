//! Dying in the middle of a change: by a panic, after which the lock stays as it is.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// How many changes it is until the caller dies; 0: never.
pub(super) fn in_steps(steps: u64) {
    STEPS.set(steps);
}

pub(super) fn steps_left() -> u64 {
    STEPS.get()
}

pub(in super::super) fn may_strike() {
    let steps = STEPS.get();
    STEPS.set(steps.saturating_sub(1));
    if steps == 1 {
        std::panic::resume_unwind(Box::new("death"));
    }
}
