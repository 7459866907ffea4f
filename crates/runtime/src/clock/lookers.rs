//! What waits is left to workers that look for work, for a while.
//!
//! While a worker looks for work, or has been woken to do so, makers of work tell nobody else
//! ([`idle`](crate::idle)). But with many workers something waits at most moments, about to be
//! taken, and a clock that looks then would interrupt every thread that has had its quantum. So
//! those give way only to what is still there after about the time that it takes to wake a worker.
//! Then the looker may have lost its CPU.

use crate::runtime::Inner;
use crate::tsc::{self, Ticks};
use std::time::Duration;

/// For how long.
const WHILE: Duration = Duration::from_micros(30);

/// When a thread that is `due` gives way at a probe that it has counted up to.
#[inline]
pub(crate) fn may_take(rt: &Inner, due: Ticks) -> Ticks {
    if rt.idle.looking() == 0 { due } else { due.saturating_add(tsc::from_duration(WHILE)) }
}

/// What a clock's thread knows of each worker.
pub(super) struct Left {
    /// Since when each look has found the worker's thread due, and somebody looking for work; 0:
    /// the last one has not.
    since: Box<[Ticks]>,
}

impl Left {
    pub(super) fn new(rt: &Inner) -> Left {
        Left { since: rt.slots().iter().map(|_| 0).collect() }
    }

    /// When `worker` is to be told what is `due`, if anything is, after a look at `now`.
    pub(super) fn told_at(
        &mut self,
        rt: &Inner,
        worker: usize,
        due: Option<Ticks>,
        now: Ticks,
    ) -> Option<Ticks> {
        self.until(worker, due, now, rt.idle.looking() != 0)
    }

    fn until(
        &mut self,
        worker: usize,
        due: Option<Ticks>,
        now: Ticks,
        looked_for: bool,
    ) -> Option<Ticks> {
        let since = &mut self.since[worker];
        let Some(at) = due.filter(|&at| at <= now && looked_for) else {
            *since = 0;
            return due;
        };
        if *since == 0 {
            *since = now;
        }
        Some(at.max(since.saturating_add(tsc::from_duration(WHILE))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_is_told() {
        tsc::init();
        let length = tsc::from_duration(WHILE);
        let mut left = Left { since: Box::new([0; 2]) };
        let mut until = |worker, due, now, looked_for| left.until(worker, due, now, looked_for);
        assert_eq!(until(0, Some(500), 1000, false), Some(500));
        assert_eq!(until(0, Some(500), 1000, true), Some(1000 + length), "somebody looks");
        let now = 1000 + length;
        assert_eq!(until(0, Some(500), now, true), Some(now), "and has not come");
        assert_eq!(until(1, Some(500), now, true), Some(now + length), "each its own");
        // In between it was taken, another one began, or nobody looked.
        for (due, looked_for) in [(None, true), (Some(10 * now), true), (Some(500), false)] {
            assert_eq!(until(0, due, 2 * now, looked_for), due);
            assert_eq!(until(0, Some(500), 3 * now, true), Some(3 * now + length));
            assert_eq!(until(0, Some(500), 5 * now, true), Some(3 * now + length));
        }
    }
}
