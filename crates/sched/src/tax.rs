//! What preemptions may cost.
//!
//! Where threads are interrupted in order to serve short requests soon, the interruptions
//! themselves take time, and on a busy worker that time is missing. A [`Tax`] bounds it: a worker's
//! account gains a share of the time in which the worker works, and a larger one of the time in
//! which it has nothing to do; each interruption is paid from it. So a worker with time to spare
//! preempts as often as the quantum says, a busy one no more often than the share allows. Not all
//! of the idle time is spent, for a queue grows without bound as that comes to its end. What is
//! saved is bounded, so that a quiet hour does not pay for a bad second.
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
/// // Of idle time three tenths count.
/// assert_eq!(tax.earliest(tax.rest(account, 30)), 1040);
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

/// The quantum for a machine on which an interruption takes `price`: three times that, in steps of
/// 10 us, between the policies' [own default](crate::DEFAULT_QUANTUM) and 200 us. A shorter quantum
/// would make those wait whom it is to serve.
///
/// ```
/// use core::time::Duration;
/// use quaver_sched::quantum_for;
///
/// assert_eq!(quantum_for(Duration::from_micros(2)), Duration::from_micros(20));
/// assert_eq!(quantum_for(Duration::from_micros(21)), Duration::from_micros(70));
/// assert_eq!(quantum_for(Duration::from_millis(1)), Duration::from_micros(200));
/// ```
pub fn quantum_for(price: Duration) -> Duration {
    const STEP: u64 = 10_000;
    const MOST: Duration = Duration::from_micros(200);
    let price = price.min(MOST).as_nanos() as u64;
    let steps = (3 * price).div_ceil(STEP);
    Duration::from_nanos(steps * STEP).clamp(crate::DEFAULT_QUANTUM, MOST)
}

impl Tax {
    /// How much of its time a worker of the runtime keeps for preemptions that come later: a burst
    /// of short requests behind long ones is a matter of milliseconds.
    pub const SAVINGS: Duration = Duration::from_millis(2);

    /// The percentage of idle time that may be spent, if `percent` is less.
    pub const OF_IDLE_TIME: u32 = 30;

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
        let more = u64::from(Tax::OF_IDLE_TIME).saturating_sub(self.percent);
        account.saturating_sub(idle.saturating_mul(more) / self.percent)
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
    fn idle_time_is_worth_more() {
        let tax = Tax::new(5, 10, 0);
        let account = tax.charge(0, 1000);
        assert_eq!(tax.earliest(account), 1200);
        // 20 of idleness pay 6, and 80 of work the other 4: at 1100.
        assert_eq!(tax.earliest(tax.rest(account, 20)), 1100);
        // Who may spend half of his time may spend half of his idle time.
        let tax = Tax::new(50, 10, 0);
        assert_eq!(tax.earliest(tax.rest(tax.charge(0, 1000), 10)), 1020);
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
