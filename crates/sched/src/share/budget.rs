//! How much a latency-critical application may use.

use crate::Time;

/// Whether it keeps its rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It ranks above best-effort ones.
    Kept,
    /// It has used more than its budget, and ranks with them.
    Lost,
}

/// The account of one latency-critical application.
///
/// Its rank lets it take any core at any time, so one that never stops would leave nothing to
/// others. It may use `share` percent of all cores' time, on average over about `window`; beyond
/// that it ranks with best-effort applications until it has used less than nine tenths of it.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    share: u64,
    window: Time,
    /// In percent, times 256.
    mean: u64,
    standing: Standing,
}

impl Budget {
    /// `share` in percent of all cores; 100 or more: no bound.
    pub fn new(share: u32, window: Time) -> Budget {
        Budget { share: share.into(), window: window.max(1), mean: 0, standing: Standing::Kept }
    }

    /// It used `used` of the time of `cores` cores during the last `span`.
    pub fn spend(&mut self, used: Time, span: Time, cores: usize) -> Standing {
        let all = span.saturating_mul(cores as u64);
        if all == 0 || self.share >= 100 {
            return self.standing;
        }
        let percent = (u128::from(used) * 25_600 / u128::from(all)).min(100 * 256) as u64;
        // The part of the window that this was.
        let part = span.min(self.window);
        let weigh = |value: u64, part: Time| u128::from(value) * u128::from(part);
        let sum = weigh(self.mean, self.window - part) + weigh(percent, part);
        self.mean = (sum / u128::from(self.window)) as u64;
        if self.mean > self.share * 256 {
            self.standing = Standing::Lost;
        } else if self.mean * 10 < self.share * 256 * 9 {
            self.standing = Standing::Kept;
        }
        self.standing
    }

    /// Whether it keeps its rank.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// What it uses, in percent of all cores, on average over the window.
    pub fn percent(&self) -> f64 {
        self.mean as f64 / 256.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_burst_is_no_offence_and_a_long_one_is() {
        let mut budget = Budget::new(50, 1000);
        assert_eq!(budget.spend(200, 100, 2), Standing::Kept);
        let spans = (0..100).take_while(|_| budget.spend(200, 100, 2) == Standing::Kept).count();
        assert!((2..=8).contains(&spans), "{spans}");
        // It comes back after a while, and not at the first instant of rest.
        assert_eq!(budget.spend(0, 1, 2), Standing::Lost);
        let spans = (0..100).take_while(|_| budget.spend(0, 100, 2) == Standing::Lost).count();
        assert!((1..=8).contains(&spans), "{spans}");
    }

    #[test]
    fn who_keeps_to_it_keeps_its_rank() {
        let mut budget = Budget::new(50, 1000);
        for i in 0..1000u64 {
            assert_eq!(budget.spend(70 + 40 * (i % 2), 100, 2), Standing::Kept, "{budget:?}");
            assert!(budget.percent() < 100.0);
        }
    }

    #[test]
    fn without_a_bound_everything_is_allowed() {
        let mut budget = Budget::new(100, 1000);
        for used in [0, 200, Time::MAX] {
            assert_eq!(budget.spend(used, 100, 2), Standing::Kept);
        }
        // No time has passed, or there are no cores: nothing follows from that.
        assert_eq!(Budget::new(1, 10).spend(5, 0, 2), Standing::Kept);
        assert_eq!(Budget::new(1, 10).spend(5, 1, 0), Standing::Kept);
    }
}
