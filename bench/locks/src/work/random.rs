//! Random numbers with a seed, and two skewed distributions.

/// xorshift64*.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// With a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Zipf's law: the one of rank r comes as often as 1 / r^s.
#[derive(Clone, Debug)]
pub struct Zipf(Vec<f64>);

impl Zipf {
    /// Over `count` ranks with exponent `skew`.
    pub fn new(count: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let mut up_to = |rank: usize| {
            sum += (rank as f64).powf(-skew);
            sum
        };
        let sums: Vec<f64> = (1..=count).map(&mut up_to).collect();
        Self(sums.iter().map(|part| part / sum).collect())
    }

    /// A rank, from 0.
    pub fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit();
        self.0.partition_point(|&up_to| up_to <= at).min(self.0.len() - 1)
    }
}

/// A number below `count`, self-similar: with `skew` 0.2, four of five draws fall on the first
/// fifth, and so on within it.
pub fn self_similar(count: u64, skew: f64, random: &mut Random) -> u64 {
    let power = skew.ln() / (1.0 - skew).ln();
    ((count as f64 * random.unit().powf(power)) as u64).min(count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_halves_with_the_rank() {
        let (zipf, mut random) = (Zipf::new(100, 1.0), Random::new(7));
        let mut counts = [0u32; 100];
        (0..200_000).for_each(|_| counts[zipf.draw(&mut random)] += 1);
        // The sum of 1 / r up to 100 is 5.187.
        for (rank, share) in [(0, 1.0 / 5.187), (1, 0.5 / 5.187), (9, 0.1 / 5.187)] {
            let got = f64::from(counts[rank]) / 200_000.0;
            assert!((got / share - 1.0).abs() < 0.08, "rank {rank}: {got}, not {share}");
        }
        assert!(counts[99] > 0);
    }

    #[test]
    fn four_of_five_fall_on_the_first_fifth() {
        let mut random = Random::new(3);
        let draws = (0..100_000).map(|_| self_similar(1_000_000, 0.2, &mut random));
        let first = draws.filter(|&at| at < 200_000).count();
        assert!((79_000..81_000).contains(&first), "{first}");
    }
}
