//! Contention for something of which it is known whether it is protected.

use crate::support::{Rng, Setup, spin, until_preempted};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;

/// What is protected: the second number follows the first, after a while.
#[derive(Default)]
pub(crate) struct Protected(AtomicI64, AtomicI64);

impl Protected {
    /// Alone.
    pub(crate) fn change(&self, rounds: u64) {
        let n = self.0.fetch_add(1, SeqCst);
        spin(rounds);
        assert_eq!(self.1.swap(n + 1, SeqCst), n, "not alone");
    }

    /// Together with others who only look.
    pub(crate) fn look(&self, rounds: u64) {
        let n = self.0.load(SeqCst);
        spin(rounds);
        assert_eq!(self.1.load(SeqCst), n, "changed meanwhile");
    }
}

/// Four threads that contend for something, often for longer than a quantum, until `n` preemptions.
pub(crate) fn contend(setup: Setup, n: u64, step: impl Fn(&mut Rng) + Sync) {
    setup.run(|| {
        quaver::scope(|s| {
            for i in 0..4 {
                let step = &step;
                s.spawn(move || {
                    let mut rng = Rng(i);
                    until_preempted(setup.preemptions(n), |_| step(&mut rng));
                });
            }
        });
    });
}
