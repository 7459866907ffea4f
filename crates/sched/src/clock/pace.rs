//! How often a clock looks while no task outlives its quantum.
//!
//! A look at the end of a quantum is in vain if the task that it was meant for has ended and
//! another has begun. Where tasks are short and never run out, all looks are, and each costs an
//! interruption or a wake-up: on a virtual machine half of a worker's time at 50 us. So looks that
//! are in vain become rarer, until they take a thirty-third of the time, and the first task that
//! outlives its quantum after that is stopped later, by [`Pace::MOST`] at most. From then on, for
//! [`Pace::CALM`], looks are on time. Not in the papers.
//!
//! Tasks that are shorter than that delay and come seldom run to completion. So it must not be much
//! longer than a quantum. Where a thirty-third of the time would be more than four quanta, looks
//! take up to a twentieth: that is four of those quanta that are four interruptions each
//! (`quantum_for`), which a fiftieth would make 12.
//!
//! What the machine itself takes of a task's time (an interrupt, on a virtual machine a turn of the
//! host) makes short tasks look long, dozens of times in a second. So a task counts as long when it
//! is stopped at the end of its quantum twice in a row, or has run for two quanta, and for four
//! interruptions more than one.
//!
//! ```text
//!   a task outlives its quantum                 in vain, for CALM already
//!        |                                         |
//!        v                                         v
//!   later by 0 --------- in vain: 0 -----> later by q, 3q, 7q, ... up to the bound
//!        ^                                         |
//!        +------ a task outlives its quantum ------+
//! ```

use crate::Time;
use core::time::Duration;

/// Looks in vain take one part of this many of the time.
const PARTS: Time = 33;
/// What that may delay a task's stop by, in quanta.
const FEW_QUANTA: Time = 4;
/// If it would be more: the part that they take at most.
const LEAST_PARTS: Time = 20;
/// What they take where tasks stop at probes, and looks are for those that meet none.
const PARTS_OF_BACKSTOP: Time = 100;
/// What the machine takes of a task's time is less than this many interruptions.
const DISTURBANCE: Time = 4;

/// How much later a clock looks while no task outlives its quantum: twice as much after each look
/// that was in vain, until such looks take a thirty-third of the time, or a twentieth where that
/// would be more than four quanta, and never by more than [`MOST`](Pace::MOST).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    quantum: Time,
    long: Time,
    most: Time,
    calm: Time,
}

impl Pace {
    /// How long looks are on time after a task has outlived its quantum.
    pub const CALM: Duration = Duration::from_millis(10);
    /// How much later a look may be.
    pub const MOST: Duration = Duration::from_millis(1);

    /// For a clock whose looks take `price` each. `unit` makes a time of a span.
    pub fn new(quantum: Time, price: Time, unit: impl Fn(Duration) -> Time) -> Pace {
        Pace::of_parts(LEAST_PARTS, quantum, price, unit)
    }

    /// The same for one that is the second notification, where tasks tell themselves in time.
    pub fn backstop(quantum: Time, price: Time, unit: impl Fn(Duration) -> Time) -> Pace {
        Pace::of_parts(PARTS_OF_BACKSTOP, quantum, price, unit)
    }

    fn of_parts(parts: Time, quantum: Time, price: Time, unit: impl Fn(Duration) -> Time) -> Pace {
        let once_in = |parts: Time| price.saturating_mul(parts).saturating_sub(quantum);
        let few = once_in(PARTS).min(quantum.saturating_mul(FEW_QUANTA));
        let seldom = once_in(parts).max(few);
        let more = quantum.max(price.saturating_mul(DISTURBANCE));
        Pace {
            quantum,
            long: quantum.saturating_add(more),
            most: seldom.min(unit(Pace::MOST)),
            calm: unit(Pace::CALM),
        }
    }

    /// The most by which a look is later.
    pub fn most(&self) -> Time {
        self.most
    }

    /// Has a task that has run for so long outlived its quantum, whatever disturbed it?
    #[inline]
    pub fn is_long(&self, ran: Time) -> bool {
        ran >= self.long
    }

    /// Has a task that has run for so long had its quantum?
    pub fn is_over(&self, ran: Time) -> bool {
        ran >= self.quantum
    }

    /// How much later looks are after one at `now` that was in vain, given how much that was until
    /// now and when a task has outlived its quantum last.
    #[inline]
    #[must_use]
    pub fn in_vain(&self, later: Time, long_at: Time, now: Time) -> Time {
        if now.saturating_sub(long_at) < self.calm {
            0
        } else {
            later.saturating_mul(2).saturating_add(self.quantum).min(self.most)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(quantum: Time, price: Time) -> Pace {
        Pace::new(quantum, price, |span| span.as_micros() as Time)
    }

    #[test]
    fn looks_in_vain_take_little_of_the_time() {
        for (quantum, price, parts) in [
            (50, 2, PARTS),
            (50, 7, PARTS),
            (20, 20, LEAST_PARTS),
            (5, 1, LEAST_PARTS),
            (100, 1, PARTS),
        ] {
            let pace = pace(quantum, price);
            let (mut now, mut later, mut spent) = (10_000, 0, 0);
            while now < 1_010_000 {
                later = pace.in_vain(later, 0, now);
                assert!(later <= 1_000);
                now += quantum + later;
                spent += price;
            }
            assert!(spent <= 1_000_000 / parts + 100 * price, "{quantum} {price}: {spent}");
        }
    }

    #[test]
    fn four_quanta_are_late_enough() {
        assert_eq!(pace(50, 7).most(), 33 * 7 - 50);
        assert_eq!(pace(50, 10).most(), 200);
        assert_eq!(pace(50, 20).most(), 20 * 20 - 50);
        // A quantum of four interruptions.
        assert_eq!(pace(40, 10).most(), 160);
    }

    #[test]
    fn a_backstop_takes_a_hundredth_of_the_time() {
        let pace = Pace::backstop(5, 8, |span| span.as_micros() as Time);
        assert_eq!((pace.most(), self::pace(5, 8).most()), (795, 155));
        assert_eq!(Pace::backstop(5, 20, |span| span.as_micros() as Time).most(), 1_000);
    }

    #[test]
    fn looks_are_on_time_for_a_while_after_a_long_task() {
        let pace = pace(50, 50);
        assert!(pace.is_long(250) && !pace.is_long(249));
        assert_eq!(pace.in_vain(950, 5_000, 14_999), 0);
        assert_eq!(pace.in_vain(0, 5_000, 15_000), 50);
        assert_eq!(pace.in_vain(50, 5_000, 15_100), 150);
        assert_eq!(pace.in_vain(800, 5_000, 16_000), 950);
    }

    #[test]
    fn a_look_that_costs_little_is_always_on_time() {
        assert!(pace(100, 2).is_long(200) && !pace(100, 2).is_long(199));
        assert_eq!(pace(100, 2).in_vain(0, 0, 1_000_000), 0);
    }
}
