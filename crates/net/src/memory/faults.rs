//! What goes wrong on a wire.

use quaver::sched::random::splitmix64;
use std::time::Duration;

/// What goes wrong on a wire, each independently of the others. Probabilities are from 0 to 1.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// A frame is lost.
    pub loss: f64,
    /// A frame arrives twice.
    pub duplication: f64,
    /// One bit of a frame is flipped.
    pub corruption: f64,
    /// A frame arrives before the one sent just before it. On a simulated clock: it arrives up to
    /// ten [`delay`](Faults::delay)s late.
    pub reordering: f64,
    /// How long each frame takes. On a simulated clock only.
    pub delay: Duration,
}

/// A stream of random numbers.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// True with this probability.
    pub(super) fn falls(&mut self, probability: f64) -> bool {
        // Without a draw: faults that are off change nothing for the others.
        probability > 0.0 && self.fraction() < probability
    }

    /// From 0 to 1.
    pub(super) fn fraction(&mut self) -> f64 {
        (splitmix64(&mut self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Less than `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (splitmix64(&mut self.0) % n.max(1) as u64) as usize
    }
}
