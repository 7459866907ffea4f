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

/// Resamplings of [`mean_of_medians_interval`].
const RESAMPLINGS: usize = 2_000;

/// The mean over several things of the median of each one's rounds: where 95 % of what other rounds
/// would have given lie, by the bootstrap. Rounds are drawn for all things together, for a round
/// that the machine disturbed disturbs more than one. `None` with fewer than six rounds.
pub fn mean_of_medians_interval(things: &[Vec<Option<f64>>]) -> Option<[f64; 2]> {
    let rounds = things.iter().map(Vec::len).min().filter(|&rounds| rounds >= 6)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut means = Vec::with_capacity(RESAMPLINGS);
    for _ in 0..RESAMPLINGS {
        let drawn: Vec<usize> = (0..rounds).map(|_| random.usize(..rounds)).collect();
        let median = |thing: &Vec<Option<f64>>| {
            let values: Vec<f64> = drawn.iter().filter_map(|&round| thing[round]).collect();
            Some(Summary::of(&values)?.median)
        };
        let medians: Option<Vec<f64>> = things.iter().map(median).collect();
        means.extend(medians.map(|all| all.iter().sum::<f64>() / all.len() as f64));
    }
    means.sort_by(f64::total_cmp);
    let at = |part: f64| means.get((part * means.len() as f64) as usize).copied();
    Some([at(0.025)?, at(0.975)?])
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

    #[test]
    fn one_bad_round_moves_no_interval_of_medians() {
        let thing = |by: f64| -> Vec<Option<f64>> {
            let good = (0..20).map(|round| Some(by + f64::from(round % 5)));
            good.chain([Some(1_000.0)]).collect()
        };
        let [low, high] = mean_of_medians_interval(&[thing(0.0), thing(10.0)]).unwrap();
        // The medians are 2 and 12.
        assert!((6.0..=7.0).contains(&low) && (7.0..=8.5).contains(&high), "{low} {high}");
        assert_eq!(mean_of_medians_interval(&[vec![Some(1.0); 5]]), None);
        assert_eq!(mean_of_medians_interval(&[vec![None; 9]]), None);
        assert_eq!(mean_of_medians_interval(&[]), None);
    }
}
