//! Randomness that is the same on every machine.
//!
//! ChaCha8 is specified bit by bit, and the transformations below use only IEEE arithmetic and
//! `libm`'s own implementations, never the C library's, whose last bits differ between versions.
//!
//! Each use has its own stream of the seed's generator. So a different mix or another service-time
//! distribution leaves the arrival times as they were, and two systems or two settings can be
//! compared under exactly the same arrivals.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// What a stream of random numbers is for.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Arrivals,
    Class,
    Key,
    /// The service times of a class.
    Service(u32),
}

/// A source of random numbers, and what is made of them: the same on every machine if the source
/// is.
pub trait Uniform {
    /// Uniform in `[0, 1)`.
    fn unit(&mut self) -> f64;

    /// Exponential with the given mean, by inversion; at most 36.8 means if `unit` has 53 bits.
    fn exponential(&mut self, mean: f64) -> f64 {
        -libm::log1p(-self.unit()) * mean
    }

    /// Standard normal (Box and Muller); the second value of the pair is not kept, so that the
    /// state stays simple.
    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(self.exponential(2.0));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        // The key is written out because the expansion in `seed_from_u64` belongs to a library and
        // may change.
        let mut key = *b"........quaver-load request seed";
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(match stream {
            Stream::Arrivals => 0,
            Stream::Class => 1,
            Stream::Key => 2,
            Stream::Service(class) => 16 + u64::from(class),
        });
        Self(rng)
    }

    /// Uniform over all values.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Geometric on 1, 2, 3... with the given mean, which is at least 1.
    pub(crate) fn geometric(&mut self, mean: f64) -> u64 {
        let log_failure = libm::log1p(-1.0 / mean);
        1 + (libm::log1p(-self.unit()) / log_failure) as u64
    }
}

impl Uniform for Random {
    /// A multiple of 2^-53.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of a million draws.
    fn moments(mut draw: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
        let mut random = Random::new(7, Stream::Arrivals);
        let n = 1_000_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = draw(&mut random);
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        (mean, squares / f64::from(n) - mean * mean)
    }

    fn assert_close(got: f64, want: f64, tolerance: f64) {
        assert!((got - want).abs() <= tolerance, "{got} is not within {tolerance} of {want}");
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let (mean, variance) = moments(Random::unit);
        assert_close(mean, 0.5, 0.001);
        assert_close(variance, 1.0 / 12.0, 0.001);
        let (mean, variance) = moments(|r| r.exponential(3.0));
        assert_close(mean, 3.0, 0.02);
        assert_close(variance, 9.0, 0.15);
        let (mean, variance) = moments(Random::normal);
        assert_close(mean, 0.0, 0.005);
        assert_close(variance, 1.0, 0.01);
        let (mean, variance) = moments(|r| r.geometric(4.0) as f64);
        assert_close(mean, 4.0, 0.02);
        assert_close(variance, 12.0, 0.2);
        assert_eq!(moments(|r| r.geometric(1.0) as f64), (1.0, 0.0));
    }

    /// The values were computed with another implementation of ChaCha8 and of the transformations.
    #[test]
    fn a_seed_means_the_same_everywhere() {
        let mut random = Random::new(1, Stream::Arrivals);
        let bits = [random.bits(), random.bits()];
        let mut random = Random::new(1, Stream::Service(3));
        let draws = [random.exponential(1.0), random.normal()];
        assert_eq!(bits, [5615259391226458932, 5790208530712315228]);
        assert_eq!(draws.map(f64::to_bits), [4603624255696649277, 13821689050878318441]);
    }
}
