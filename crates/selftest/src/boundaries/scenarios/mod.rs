//! What is stepped: pieces of work whose result does not depend on when they are interrupted.
//!
//! A scenario is a function that runs on a user thread, calls [`step`](super::stepper::step) around
//! the part that is to be stepped, and returns a number. It does the same at each call. Whoever it
//! waits for makes progress by itself; it never looks at the time.

mod calls;
mod channels;
mod files;
mod foreign;
mod locks;
mod memory;
mod registers;
mod signals;
mod threads;
mod timers;
mod unwinding;

/// A piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// Can this machine do it?
    pub available: fn() -> bool,
    /// Does it once.
    pub run: fn() -> u64,
    /// Nothing of it runs in the runtime, unless it is preempted.
    pub plain: bool,
}

impl Scenario {
    const fn new(name: &'static str, run: fn() -> u64) -> Scenario {
        Scenario { name, available: || true, run, plain: false }
    }

    const fn plain(name: &'static str, run: fn() -> u64) -> Scenario {
        Scenario { name, available: || true, run, plain: true }
    }

    const fn only_if(name: &'static str, available: fn() -> bool, run: fn() -> u64) -> Scenario {
        Scenario { name, available, run, plain: true }
    }
}

/// All of them.
pub fn all() -> Vec<Scenario> {
    [
        threads::ALL,
        locks::ALL,
        channels::ALL,
        timers::ALL,
        calls::ALL,
        memory::ALL,
        unwinding::ALL,
        files::ALL,
        foreign::ALL,
        registers::ALL,
        signals::ALL,
    ]
    .concat()
}

/// The scenario of this name.
pub fn find(name: &str) -> Option<Scenario> {
    all().into_iter().find(|s| s.name == name)
}

/// Mixes a value into a sum, so that order matters.
fn mix(sum: u64, value: u64) -> u64 {
    (sum ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}
