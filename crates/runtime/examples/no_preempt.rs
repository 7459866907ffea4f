//! A short region that is never interrupted.

use std::cell::Cell;

thread_local!(static STEP: Cell<u32> = const { Cell::new(0) });

#[quaver::main]
fn main() {
    quaver::no_preempt(|| {
        STEP.set(STEP.get() + 1);
        assert!(!quaver::is_preemptible());
    });
    println!("step {}, preemptible again: {}", STEP.get(), quaver::is_preemptible());
}
