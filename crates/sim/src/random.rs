//! Random numbers for what the load generator does not draw, from integer and IEEE arithmetic only,
//! so that they are the same on every machine.

use quaver_load::Uniform;
use quaver_sched::random::splitmix64;

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// The time between two events of a Poisson process, at least 1.
    pub(crate) fn gap(&mut self, mean: f64) -> u64 {
        (self.exponential(mean) as u64).max(1)
    }
}

impl Uniform for Random {
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}
