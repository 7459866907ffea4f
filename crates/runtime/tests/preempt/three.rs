//! Three threads that are preempted.

use crate::support::{Rng, Setup, until_preempted};

/// Three threads that each do `step`, with a seed of their own, until there have been `n`
/// preemptions.
pub(crate) fn three(setup: Setup, n: u64, step: impl Fn(u64) + Sync) {
    setup.run(|| {
        quaver::scope(|s| {
            for i in 1..4 {
                let step = &step;
                s.spawn(move || {
                    let mut rng = Rng(i);
                    until_preempted(setup.preemptions(n), |_| step(rng.next()));
                });
            }
        });
    });
}

/// About ten microseconds in [`registers`].
pub(crate) const ROUNDS: u64 = 6_000;
