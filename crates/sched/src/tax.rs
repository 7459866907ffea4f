//! What preemptions may cost.
//!
//! Where threads are interrupted in order to serve short requests soon, the interruptions
//! themselves take time, and on a busy worker that time is missing. A [`Tax`] bounds it. There are
//! two ways to pay for an interruption:
//!
//! * *From savings.* Each worker has an account, which gains a share of the time in which it has
//!   nothing to do, and pays for interruptions. The share falls with the square of the part of the
//!   time that is idle: a queue grows as one over that part, so near saturation every interruption
//!   makes all wait, and there it is worth nothing. What is saved is bounded, so that a quiet hour
//!   does not pay for a bad second.
//! * *By the thread itself*, which has run for so long that the interruption is no more than the
//!   percentage of it. So a thread that computes for ever does not keep a busy worker. What it
//!   leaves over is saved, and all of it if nobody interrupts it.
//!
//! Not in the papers.

use crate::Time;
use core::time::Duration;

/// A bound on what interruptions take of a worker's time.
///
/// ```
/// use quaver_sched::{Account, Tax};
///
/// // A tenth of a thread's time for interruptions of 10 each, and savings for two.
/// let tax = Tax::new(10, 10, 20);
/// let mut account = Account::default();
/// assert_eq!(tax.earliest(account, 1000), 1100, "when the thread has run for 100");
/// // A worker that does nothing else saves.
/// account = tax.rest(account, 1 << 20, 0);
/// for _ in 0..2 {
///     assert_eq!(tax.earliest(account, 1000), 0, "at once");
///     account = tax.charge(account, 5);
/// }
/// assert_eq!(tax.earliest(account, 1000), 1100);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tax {
    percent: u64,
    price: Time,
    /// How long a thread must run to pay for one interruption.
    pays_in: Time,
    savings: Time,
}

/// A worker's: what it has saved, and how much of its time it is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Not more than a [`Tax`]'s savings.
    saved: u32,
    /// In parts of [`ALL`].
    idle: u32,
}

/// As the part of the time that is idle: all of it.
const ALL: u64 = 1 << 16;

/// No span counts for more: hours, in time-stamp counts.
const LONGEST: Time = 1 << 46;

impl Account {
    /// The account in one word, for hosts that share it between threads.
    pub fn to_bits(self) -> u64 {
        u64::from(self.idle) << 32 | u64::from(self.saved)
    }

    /// The inverse of [`to_bits`](Account::to_bits).
    pub fn from_bits(bits: u64) -> Account {
        Account { saved: bits as u32, idle: (bits >> 32) as u32 }
    }
}

/// The quantum for a machine on which an interruption takes `price`: four times that, in steps of
/// 10 us, between the policies' [own default](crate::DEFAULT_QUANTUM) and 200 us. A shorter quantum
/// would make those wait whom it is to serve.
///
/// ```
/// use core::time::Duration;
/// use quaver_sched::quantum_for;
///
/// assert_eq!(quantum_for(Duration::from_micros(2)), Duration::from_micros(20));
/// assert_eq!(quantum_for(Duration::from_micros(21)), Duration::from_micros(90));
/// assert_eq!(quantum_for(Duration::from_millis(1)), Duration::from_micros(200));
/// ```
pub fn quantum_for(price: Duration) -> Duration {
    prices(4, price).max(crate::DEFAULT_QUANTUM)
}

/// The same where threads stop at probes, and an interruption by a signal takes `price`: three
/// times that, at least 10 us. To stop costs next to nothing there. But a tick of the kernel, or a
/// page fault, takes about as much of a short request's time, and one that meets such a thing must
/// not look long.
///
/// ```
/// use core::time::Duration;
/// use quaver_sched::probe_quantum_for;
///
/// assert_eq!(probe_quantum_for(Duration::from_micros(2)), Duration::from_micros(10));
/// assert_eq!(probe_quantum_for(Duration::from_micros(8)), Duration::from_micros(30));
/// ```
pub fn probe_quantum_for(price: Duration) -> Duration {
    prices(3, price)
}

/// So many times a price, in steps of 10 us, at least one of them and at most 20.
fn prices(times: u64, price: Duration) -> Duration {
    const STEP: u64 = 10_000;
    const MOST: u64 = 20;
    let price = price.as_nanos().min((MOST * STEP).into()) as u64;
    Duration::from_nanos((times * price).div_ceil(STEP).clamp(1, MOST) * STEP)
}

impl Tax {
    /// How much of its time a worker of the runtime keeps for preemptions that come later: a burst
    /// of short requests behind long ones is a matter of milliseconds.
    pub const SAVINGS: Duration = Duration::from_millis(2);

    /// Where the part `i` of the time is idle, this percentage of `i` squared is the share of idle
    /// time that may be spent, but no more than all of it. Simulated (`docs/tax.toml`): with less,
    /// short requests gain less at half load, with more they lose at 80 %.
    pub const OF_IDLE_TIME: u64 = 300;

    /// The idle part of the time is that of so many times the savings.
    const WINDOW: Time = 5;

    /// `percent` of a thread's time, 1 to 99, for interruptions that take `price` each; up to
    /// `savings` may be kept for later. Other percentages are taken for the nearest of these.
    pub fn new(percent: u32, price: Time, savings: Time) -> Tax {
        let percent = u64::from(percent.clamp(1, 99));
        let pays_in = price.saturating_mul(100).div_ceil(percent);
        Tax { percent, price, pays_in, savings: savings.min(u32::MAX.into()) }
    }

    /// What an interruption takes.
    pub fn price(&self) -> Time {
        self.price
    }

    /// When the next interruption may come of a thread that runs since `since`. 0: at any time.
    #[inline]
    pub fn earliest(&self, account: Account, since: Time) -> Time {
        if u64::from(account.saved) >= self.price { 0 } else { since.saturating_add(self.pays_in) }
    }

    /// The account after an interruption of a thread that has run for `ran`. If that pays for it,
    /// what it leaves over is saved; else it is paid from savings.
    #[inline]
    #[must_use]
    pub fn charge(&self, account: Account, ran: Time) -> Account {
        self.settle(account, ran, self.price)
    }

    /// The account after a thread has run for `ran`, and stopped of its own will without having
    /// been interrupted since it was dispatched: if that would have paid for an interruption, it is
    /// saved for one of another thread.
    #[inline]
    #[must_use]
    pub fn earn(&self, account: Account, ran: Time) -> Account {
        self.settle(account, ran, 0)
    }

    fn settle(&self, account: Account, ran: Time, price: Time) -> Account {
        let paid = if ran < self.pays_in { 0 } else { ran.saturating_mul(self.percent) / 100 };
        let left = u64::from(account.saved).saturating_add(paid).saturating_sub(price);
        Account { saved: left.min(self.savings) as u32, ..account }
    }

    /// The account after the worker has worked for the time `worked` and then had nothing to do for
    /// the time `idle`.
    #[must_use]
    pub fn rest(&self, account: Account, idle: Time, worked: Time) -> Account {
        // What is longer is all of the past anyway, and this much is left for the products below.
        let (idle, worked) = (idle.min(LONGEST), worked.min(LONGEST));
        // Each span counts as much as it is long, the last window for most.
        let span = idle + worked;
        let all = (span + self.savings * Tax::WINDOW).max(1);
        let part = |part: Time| part * ALL / all;
        let before = u64::from(account.idle) * (ALL - part(span)) / ALL;
        let part_idle = (before + part(idle)).min(ALL);
        let may = part_idle * part_idle / ALL * Tax::OF_IDLE_TIME / 100;
        let may = may.clamp(ALL * self.percent / 100, ALL);
        let share = idle * may / ALL;
        let saved = u64::from(account.saved).saturating_add(share);
        Account { saved: saved.min(self.savings) as u32, idle: part_idle as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: Time = 1000;

    /// After working and being idle in turns, for long.
    fn after(tax: &Tax, idle: Time, worked: Time) -> Account {
        (0..1000).fold(Account::default(), |account, _| tax.rest(account, idle, worked))
    }

    /// What interruptions take of a worker that is idle for so many of 1000, if every thread is
    /// interrupted after 20 as long as that can be paid for.
    fn spent(tax: &Tax, idle: Time) -> Time {
        let mut account = Account::default();
        let mut spent = 0;
        for round in 0..20_000 {
            let mut worked = 0;
            while worked < 1000 - idle {
                worked += 20;
                if tax.earliest(account, SINCE) <= SINCE + 20 {
                    account = tax.charge(account, 20);
                    worked += tax.price();
                    spent += if round < 10_000 { 0 } else { tax.price() };
                }
            }
            account = tax.rest(account, 1000_u64.saturating_sub(worked), worked);
        }
        spent / 10_000
    }

    #[test]
    fn the_share_of_idle_time_falls_with_its_square() {
        let tax = Tax::new(2, 10, 2000);
        let found = [900, 500, 300, 200, 100, 0].map(|idle| spent(&tax, idle));
        // Of 300 idle ones: 3 * 0.3 * 0.3 * 300. Beyond that there is less to interrupt.
        for (found, expected) in
            found.into_iter().zip([30..50, 150..190, 70..90, 20..30, 1..5, 0..1])
        {
            assert!(expected.contains(&found), "{found} is not in {expected:?}");
        }
    }

    #[test]
    fn a_thread_that_runs_for_long_pays_itself() {
        let tax = Tax::new(5, 10, 100);
        let account = Account::default();
        assert_eq!(tax.earliest(account, SINCE), SINCE + 200);
        assert_eq!(tax.charge(account, 200), account);
        // One that has run for 400 pays for two.
        let account = tax.charge(account, 400);
        assert_eq!(tax.earliest(account, SINCE), 0);
        assert_eq!(tax.earliest(tax.charge(account, 20), SINCE), SINCE + 200);
        // So does one of 200 that nobody interrupts, for somebody else.
        assert_eq!(tax.earliest(tax.earn(Account::default(), 200), SINCE), 0);
        // Short ones save nothing.
        let short = |account, _| tax.earn(tax.charge(account, 199), 199);
        assert_eq!((0..1000).fold(Account::default(), short), Account::default());
    }

    #[test]
    fn savings_are_bounded() {
        let tax = Tax::new(10, 10, 100);
        let account = Account::default();
        let long = [tax.charge(account, 1 << 40), tax.earn(account, 1 << 40)];
        for mut account in [after(&tax, 1 << 40, 0)].into_iter().chain(long) {
            let mut count = 0;
            while tax.earliest(account, SINCE) == 0 {
                account = tax.charge(account, 0);
                count += 1;
            }
            assert_eq!(count, 10);
        }
    }

    #[test]
    fn who_may_spend_more_of_his_time_may_spend_it_of_idle_time() {
        let tax = Tax::new(50, 10, 1 << 20);
        let account = tax.rest(after(&tax, 0, 1000), 20, 0);
        assert_eq!(tax.earliest(account, SINCE), 0, "half of 20");
    }

    #[test]
    fn extreme_numbers_do_no_harm() {
        let tax = Tax::new(0, u64::MAX, u64::MAX);
        let account = tax.rest(tax.charge(Account::default(), u64::MAX), u64::MAX, u64::MAX);
        assert_eq!(tax.earliest(account, u64::MAX), u64::MAX);
        assert_eq!(Account::from_bits(account.to_bits()), account);
        assert_eq!(Tax::new(1000, 1, 1), Tax::new(99, 1, 1));
    }
}
