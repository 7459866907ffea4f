//! What waits is left to workers that look for work, for a while.
//!
//! While a worker looks for work, or has been woken to do so, makers of work tell nobody else
//! ([`idle`](crate::idle)). But with many workers something waits at most moments, about to be
//! taken, and a clock that looks then would interrupt every thread that has had its quantum. So
//! those give way only to what is still there after about the time that it takes to wake a worker.
//! Then the looker may have lost its CPU.

use crate::runtime::Inner;
use crate::tsc::{self, Ticks};
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::*;
use std::time::Duration;

/// For how long.
const WHILE: Duration = Duration::from_micros(30);

/// When a thread that is `due` gives way at a probe that it has counted up to.
#[inline]
pub(crate) fn may_take(rt: &Inner, due: Ticks) -> Ticks {
    if rt.idle.looking() == 0 { due } else { due.saturating_add(tsc::from_duration(WHILE)) }
}

/// When the worker of `slot` is to be told what is `due`, if anything is, after a look at `now`. By
/// the clock's thread only.
pub(super) fn told_at(slot: &Slot, due: Option<Ticks>, now: Ticks) -> Option<Ticks> {
    let before = slot.left_since.load(Relaxed);
    let (since, told_at) = left(before, due, now, slot.rt().idle.looking() != 0);
    if since != before {
        slot.left_since.store(since, Relaxed);
    }
    told_at
}

/// Since when each look has found a thread due, and somebody looking for work (0: this one has
/// not), if it was `since` before; and when it is to be told.
fn left(since: Ticks, due: Option<Ticks>, now: Ticks, looked_for: bool) -> (Ticks, Option<Ticks>) {
    let Some(at) = due.filter(|&at| at <= now && looked_for) else { return (0, due) };
    let since = if since == 0 { now } else { since };
    (since, Some(at.max(since.saturating_add(tsc::from_duration(WHILE)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_is_told() {
        tsc::init();
        let length = tsc::from_duration(WHILE);
        let mut since = 0;
        let mut look = |due, now, looked_for| {
            let told_at;
            (since, told_at) = left(since, due, now, looked_for);
            told_at
        };
        assert_eq!(look(Some(500), 1000, false), Some(500));
        assert_eq!(look(Some(500), 1000, true), Some(1000 + length), "somebody looks");
        let now = 1000 + length;
        assert_eq!(look(Some(500), now, true), Some(now), "and has not come");
        // In between it was taken, another one began, or nobody looked.
        for (due, looked_for) in [(None, true), (Some(10 * now), true), (Some(500), false)] {
            assert_eq!(look(due, 2 * now, looked_for), due);
            assert_eq!(look(Some(500), 3 * now, true), Some(3 * now + length));
            assert_eq!(look(Some(500), 5 * now, true), Some(3 * now + length));
        }
    }
}
