//! What a clock on another CPU saw: when it asked, when it was answered, and for how long it was
//! away itself meanwhile.

/// Metric: how late the answer is, at a percentile of all moments.
const LATE: [(&str, f64); 3] =
    [("late_p50_us", 0.5), ("late_p99_us", 0.99), ("late_p999_us", 0.999)];
/// Metric: standard deviation of the intervals between answers.
pub const DEVIATION_US: &str = "deviation_us";
/// Metric: share of the time that is further than [`FAR_NS`] from the next answer.
pub const FAR_PERCENT: &str = "far_percent";
/// Metric: share of the answers that say nothing, because the clock was away.
const UNSEEN_PERCENT: &str = "unseen_percent";
/// Far from a probe.
const FAR_NS: u64 = 5_000;
/// A clock that is away for longer does not know when it was answered.
const AWAY_NS: u64 = 1_000;
/// Numbers of one answer.
const NUMBERS: usize = 3;

/// Pairs of times, in ns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// From asking to the answer, ascending.
    late: Vec<u64>,
    /// From answer to answer.
    intervals: Vec<u64>,
    answers: usize,
    unseen: usize,
}

impl Samples {
    /// From numbers one after the other, asked for each `quantum_ns`.
    ///
    /// The clock asks nothing while it waits for an answer. Those moments count with what was left
    /// of the wait, so that moments are spread evenly over the time.
    pub fn new(numbers: &[u64], quantum_ns: u64) -> Samples {
        let answers: Vec<&[u64]> = numbers.chunks_exact(NUMBERS).collect();
        let seen = |answer: &[u64]| answer[2] <= AWAY_NS;
        let mut late = Vec::new();
        for answer in answers.iter().filter(|answer| seen(answer)) {
            let mut left = answer[1].saturating_sub(answer[0]);
            late.push(left);
            while quantum_ns > 0 && left > quantum_ns {
                left -= quantum_ns;
                late.push(left);
            }
        }
        late.sort_unstable();
        let pairs = answers.windows(2).filter(|pair| seen(pair[0]) && seen(pair[1]));
        let intervals = pairs.map(|pair| pair[1][1].saturating_sub(pair[0][1])).collect();
        let unseen = answers.iter().filter(|answer| !seen(answer)).count();
        Samples { late, intervals, answers: answers.len(), unseen }
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: Samples) {
        self.late.extend(other.late);
        self.late.sort_unstable();
        self.intervals.extend(other.intervals);
        self.answers += other.answers;
        self.unseen += other.unseen;
    }

    /// Names and values.
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mut metrics = vec![(super::work::PREEMPTIONS, self.answers as f64)];
        if self.answers > 0 {
            let unseen = 100.0 * self.unseen as f64 / self.answers as f64;
            metrics.push((UNSEEN_PERCENT, unseen));
        }
        let n = self.late.len();
        if n > 0 {
            let at = |share: f64| self.late[((n as f64 * share) as usize).min(n - 1)] as f64 / 1e3;
            let far = self.late.iter().filter(|&&late| late > FAR_NS).count();
            metrics.push((FAR_PERCENT, 100.0 * far as f64 / n as f64));
            metrics.extend(LATE.map(|(name, share)| (name, at(share))));
        }
        if !self.intervals.is_empty() {
            metrics.push((DEVIATION_US, deviation(&self.intervals) / 1e3));
        }
        metrics
    }
}

/// The standard deviation.
fn deviation(values: &[u64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().map(|&value| value as f64).sum::<f64>() / n;
    (values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>() / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(samples: &Samples, name: &str) -> f64 {
        samples.metrics().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    #[test]
    fn answers_on_time_are_not_late() {
        let numbers: Vec<u64> =
            (1..=100).flat_map(|i| [i * 50_000, i * 50_000 + 200, 30]).collect();
        let samples = Samples::new(&numbers, 50_000);
        assert_eq!(metric(&samples, "late_p99_us"), 0.2);
        assert_eq!(metric(&samples, DEVIATION_US), 0.0);
        assert_eq!(metric(&samples, FAR_PERCENT), 0.0);
        assert_eq!(metric(&samples, UNSEEN_PERCENT), 0.0);
    }

    #[test]
    fn a_long_wait_counts_for_all_the_moments_in_it() {
        // Of 100 moments at 5 us ten fall into one wait of 50 us: nine of them are far.
        let prompt = (0..90).flat_map(|i| [i * 5_000, i * 5_000 + 100, 30]);
        let numbers: Vec<u64> = prompt.chain([450_000, 500_000, 30]).collect();
        let samples = Samples::new(&numbers, 5_000);
        assert_eq!(samples.late.len(), 100);
        assert_eq!(metric(&samples, FAR_PERCENT), 9.0);
        assert_eq!(metric(&samples, super::super::work::PREEMPTIONS), 91.0);
        assert!(metric(&samples, DEVIATION_US) > 4.0);
    }

    #[test]
    fn runs_add_up() {
        let mut both = Samples::new(&[0, 300, 30, 5_000, 5_300, 30], 5_000);
        both.add(Samples::new(&[0, 100, 30], 5_000));
        assert_eq!(both.late, [100, 300, 300]);
        assert_eq!(both.intervals, [5_000]);
        assert_eq!(metric(&both, super::super::work::PREEMPTIONS), 3.0);
    }

    #[test]
    fn what_the_clock_has_not_seen_does_not_count() {
        let samples = Samples::new(&[0, 100, 30, 50_000, 90_000, 39_000], 50_000);
        assert_eq!(metric(&samples, UNSEEN_PERCENT), 50.0);
        assert_eq!(metric(&samples, FAR_PERCENT), 0.0);
        assert!(samples.intervals.is_empty());
        let nothing = Samples::new(&[], 5_000).metrics();
        assert_eq!(nothing, [(super::super::work::PREEMPTIONS, 0.0)]);
    }
}
