//! What user threads of one worker see of their own turns: from when to when each ran, by the
//! clock.
//!
//! Whoever begins a turn counts it. A thread looks at the count after each reading of the clock: if
//! it has moved, another thread has run since the reading before, which was therefore the last of
//! its own turn. The threads share one worker, so this holds wherever one of them is preempted.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

/// From the first to the last reading of the clock in a turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turn {
    /// The first reading.
    pub from: Instant,
    /// The last.
    pub to: Instant,
}

/// Counts the turns of a worker's threads.
#[derive(Debug, Default)]
pub struct Turns(AtomicU64);

impl Turns {
    /// The calling thread's turn begins; the result is its number.
    pub fn begin(&self) -> u64 {
        self.0.fetch_add(1, SeqCst) + 1
    }

    /// Is the turn of this number the last that has begun?
    pub fn is_still(&self, number: u64) -> bool {
        self.0.load(SeqCst) == number
    }

    /// Looks at the clock until it says `end`, on the calling user thread; the turns that ended
    /// before that, because another thread began one.
    pub fn watch(&self, end: Instant) -> Vec<Turn> {
        self.watch_with(end, Instant::now)
    }

    fn watch_with(&self, end: Instant, mut clock: impl FnMut() -> Instant) -> Vec<Turn> {
        let mut seen = Vec::with_capacity(1 << 12);
        let mut number = self.begin();
        let mut from = clock();
        let mut to = from;
        while to < end {
            let now = clock();
            if self.is_still(number) {
                to = now;
            } else {
                seen.push(Turn { from, to });
                number = self.begin();
                from = clock();
                to = from;
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_turn_ends_with_the_last_reading_before_anothers() {
        let turns = Turns::default();
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        // Another thread has a turn between the readings 3 and 90, and between 92 and 200.
        let mut readings = [1, 2, 3, 90, 91, 92, 200, 201, 400].into_iter();
        let clock = || {
            let us = readings.next().expect("it ends in time");
            if us == 90 || us == 200 {
                turns.begin();
            }
            at(us)
        };
        let seen = turns.watch_with(at(300), clock);
        assert_eq!(seen, [Turn { from: at(1), to: at(3) }, Turn { from: at(91), to: at(92) }]);
    }
}
