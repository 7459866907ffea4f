//! Statistics of repeated measurements: few values, unknown distribution, so order statistics only.

/// Lowest, middle and highest of some measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The lowest.
    pub min: f64,
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The highest.
    pub max: f64,
    /// How many there are.
    pub runs: usize,
}

impl Summary {
    /// Summarises; `None` when there is nothing to summarise.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Self { min, median, max, runs: sorted.len() })
    }
}

/// The ratios of two implementations that were measured in turn: each of one round, so that a
/// machine that slows down for some rounds slows both. Rounds in which either is missing do not
/// count.
pub fn paired_ratios(values: &[Option<f64>], reference: &[Option<f64>]) -> Vec<f64> {
    values
        .iter()
        .zip(reference)
        .filter_map(|(value, reference)| Some((*value)? / (*reference)?))
        .filter(|ratio| ratio.is_finite())
        .collect()
}

/// Between which two of the values the median of their distribution lies, with a probability of
/// 95 % at least; `None` where there are too few to say.
///
/// Each value is above the median as often as a coin shows heads.
pub fn median_interval(values: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The probability of as many heads as `outside`, and of no more.
    let mut exactly = 0.5f64.powi(n.try_into().ok()?);
    let (mut outside, mut up_to) = (0, exactly);
    while up_to <= 0.025 {
        outside += 1;
        exactly *= (n - outside + 1) as f64 / outside as f64;
        up_to += exactly;
    }
    (outside > 0).then(|| [sorted[outside - 1], sorted[n - outside]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_numbers() {
        let odd = Summary::of(&[5.0, 1.0, 3.0]).unwrap();
        assert_eq!(odd, Summary { min: 1.0, median: 3.0, max: 5.0, runs: 3 });
        let even = Summary::of(&[4.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!(even, Summary { min: 1.0, median: 3.0, max: 10.0, runs: 4 });
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_pair_the_values_of_one_round() {
        // The machine was three times slower in the second round: the ratio is 2 all the same.
        let ours = [Some(10.0), Some(30.0), None];
        let theirs = [Some(20.0), Some(60.0), Some(500.0)];
        assert_eq!(paired_ratios(&theirs, &ours), [2.0, 2.0]);
        assert!(paired_ratios(&theirs, &[None, None, None]).is_empty());
        assert!(paired_ratios(&theirs, &[Some(0.0); 3]).is_empty());
    }

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let values = |n: u32| (1..=n).rev().map(f64::from).collect::<Vec<_>>();
        // As tables of it say.
        assert_eq!(median_interval(&values(5)), None);
        assert_eq!(median_interval(&values(6)), Some([1.0, 6.0]));
        assert_eq!(median_interval(&values(9)), Some([2.0, 8.0]));
        assert_eq!(median_interval(&values(21)), Some([6.0, 16.0]));
        assert_eq!(median_interval(&[]), None);
    }
}
