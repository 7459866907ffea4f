//! What preemptions may cost.
//!
//! Where threads are interrupted in order to serve short requests soon, the interruptions
//! themselves take time, and on a busy worker that time is missing. A [`Tax`] bounds it: a worker's
//! account gains a share of the time in which the worker works, and all of the time in which it has
//! nothing to do, for that nobody else wants; each interruption is paid from it. So a worker with
//! time to spare preempts as often as the quantum says, a busy one no more often than the share
//! allows, and no load suffers more from preemption than that share of the capacity. What is saved
//! is bounded, so that a quiet hour does not pay for a bad second.
//!
//! The account is one number, the time up to which the share of the past has been spent: the
//! generic cell rate algorithm of telephone networks, which needs no timer. Not in the papers;
//! `quaver-go` has the same bound.

use crate::Time;
use core::time::Duration;

/// A bound on what interruptions take of a worker's time.
///
/// ```
/// use quaver_sched::Tax;
///
/// // A tenth of the time for interruptions of 10 each, and savings for two.
/// let tax = Tax::new(10, 10, 20);
/// let mut account = 0;
/// for _ in 0..2 {
///     assert!(tax.earliest(account) <= 1000);
///     account = tax.charge(account, 1000);
/// }
/// assert_eq!(tax.earliest(account), 1000);
/// account = tax.charge(account, 1000);
/// assert_eq!(tax.earliest(account), 1100);
/// // Idle time counts as a whole.
/// assert_eq!(tax.earliest(tax.rest(account, 10)), 1010);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tax {
    percent: u64,
    price: Time,
    /// How long the share takes to pay for one interruption.
    pays_in: Time,
    /// How long it takes to fill the savings.
    fills_in: Time,
}

impl Tax {
    /// How much of its time a worker of the runtime keeps for preemptions that come later: a burst
    /// of short requests behind long ones is a matter of milliseconds.
    pub const SAVINGS: Duration = Duration::from_millis(2);

    /// `percent` of the time, 1 to 99, for interruptions that take `price` each; up to `savings` of
    /// it may be kept for later. Other percentages are taken for the nearest of these.
    pub fn new(percent: u32, price: Time, savings: Time) -> Tax {
        let percent = u64::from(percent.clamp(1, 99));
        let in_full = |time: Time| time.saturating_mul(100).div_ceil(percent);
        Tax { percent, price, pays_in: in_full(price), fills_in: in_full(savings) }
    }

    /// What an interruption takes.
    pub fn price(&self) -> Time {
        self.price
    }

    /// When the next interruption may come.
    #[inline]
    pub fn earliest(&self, account: Time) -> Time {
        account.saturating_sub(self.fills_in)
    }

    /// The account after an interruption at `now`. A new account is 0.
    #[inline]
    #[must_use]
    pub fn charge(&self, account: Time, now: Time) -> Time {
        account.max(now).saturating_add(self.pays_in)
    }

    /// The account after the worker has had nothing to do for the time `idle`.
    #[inline]
    #[must_use]
    pub fn rest(&self, account: Time, idle: Time) -> Time {
        // The time itself has passed for everybody: its share is there already.
        account.saturating_sub(idle.saturating_mul(100 - self.percent) / self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interrupts whenever it is allowed until `end`; what the interruptions have taken.
    fn spend(tax: &Tax, price: Time, start: Time, end: Time) -> Time {
        let (mut account, mut now, mut spent) = (0, start, 0);
        loop {
            now = tax.earliest(account).max(now);
            if now >= end {
                return spent;
            }
            account = tax.charge(account, now);
            now += price;
            spent += price;
        }
    }

    #[test]
    fn a_busy_worker_loses_the_share_and_the_savings_at_most() {
        for (percent, price, savings) in
            [(1, 700, 0), (10, 100, 2000), (25, 300, 10_000), (50, 100, 400), (99, 500, 500)]
        {
            let tax = Tax::new(percent, price, savings);
            let length = 1_000_000;
            let spent = spend(&tax, price, 1_000_000, 1_000_000 + length);
            let share = length * u64::from(percent) / 100;
            assert!(spent <= share + savings + 2 * price, "{percent}: {spent}");
            assert!(spent + 2 * price >= share - length / 1000, "{percent}: {spent}");
        }
    }

    #[test]
    fn idle_time_is_worth_all_of_itself() {
        let tax = Tax::new(20, 10, 0);
        let account = tax.charge(0, 1000);
        assert_eq!(tax.earliest(account), 1050);
        // After 10 of idleness one more can be paid: at 1010.
        assert_eq!(tax.earliest(tax.rest(account, 10)), 1010);
    }

    #[test]
    fn savings_are_bounded() {
        let tax = Tax::new(10, 10, 100);
        // After a long time without any, ten and the one that is paid later.
        let (mut account, now) = (tax.rest(0, 1 << 40), 1 << 41);
        let mut count = 0;
        while tax.earliest(account) <= now {
            account = tax.charge(account, now);
            count += 1;
        }
        assert_eq!(count, 11);
    }

    #[test]
    fn extreme_numbers_do_no_harm() {
        let tax = Tax::new(0, u64::MAX, u64::MAX);
        assert_eq!(tax.earliest(tax.charge(u64::MAX, u64::MAX)), 0);
        assert_eq!(tax.rest(5, u64::MAX), 0);
        assert_eq!(Tax::new(1000, 1, 1), Tax::new(99, 1, 1));
    }
}
