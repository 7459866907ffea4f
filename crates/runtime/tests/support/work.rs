//! Work that is bounded by what was done and not by time.

use quaver::{Handle, Stats};
use quaver_sched::random::splitmix64;
use std::hint::black_box;

/// The running runtime's counters.
pub fn stats() -> Stats {
    Handle::current().map(|h| h.stats()).unwrap_or_default()
}

/// So many rounds of arithmetic without a call: some nanoseconds each.
#[inline(never)]
pub fn spin(rounds: u64) -> u64 {
    (0..rounds).fold(1, |a: u64, b| black_box(a.wrapping_mul(6364136223846793005).wrapping_add(b)))
}

/// Does `step` again and again until the runtime has made `n` preemptions in all, so that all
/// threads of a test stop at about the same time. `step` should take some microseconds; its
/// argument counts up.
///
/// # Panics
///
/// If 20 million steps, minutes, do not suffice: nothing is being preempted.
pub fn until_preempted(n: u64, step: impl FnMut(u64)) {
    until(|| stats().preempt_useful >= n, step);
}

/// As [`until_preempted`], for `n` more preemptions. Other threads must not stop before.
pub fn until_preempted_again(n: u64, step: impl FnMut(u64)) {
    until_preempted(stats().preempt_useful + n, step);
}

/// Does `step` until `done`.
///
/// # Panics
///
/// If 20 million steps do not suffice.
pub fn until(done: impl Fn() -> bool, mut step: impl FnMut(u64)) {
    const CAP: u64 = 20_000_000;
    for i in 0..CAP {
        step(i);
        if done() {
            return;
        }
    }
    panic!("{CAP} steps do not suffice: {:?}", stats());
}

/// Pseudo-random numbers, the same in every run.
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}
