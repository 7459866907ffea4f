//! CPU time that a carrier has lost to other programs.
//!
//! Dispatches are timed by the wall, which is what those who wait care about. So a thread that runs
//! for microseconds seems to outlive its quantum whenever something else has its worker's CPU, and
//! clocks that follow such threads closely ([`Pace`](quaver_sched::clock::Pace)) would wake some
//! thousand times in a second for nothing. Before they do, the kernel is asked how long the carrier
//! has had a CPU since it was asked last. What is missing, it has slept for lack of work, or lost.
//!
//! What was lost earlier than in the dispatch in question counts as lost in it: a thread that runs
//! for long may be overlooked once, and will not be when it is asked about again.

use super::Slot;
use crate::sys;
use crate::tsc::{self, Ticks};
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// A slot's. Used by its carrier only.
pub(crate) struct Lost {
    /// For how long carriers of this slot have slept in their beds.
    slept: AtomicU64,
    /// Who asked last, and the state then: the time, what it had slept, its CPU time.
    tid: AtomicI32,
    at: AtomicU64,
    slept_then: AtomicU64,
    used_then: AtomicU64,
}

impl Lost {
    pub(super) const fn new() -> Lost {
        Lost {
            slept: AtomicU64::new(0),
            tid: AtomicI32::new(0),
            at: AtomicU64::new(0),
            slept_then: AtomicU64::new(0),
            used_then: AtomicU64::new(0),
        }
    }

    /// What has been lost since the last call, if kernel thread `tid` has had `used` until `now`;
    /// 0 at its first.
    fn since_last(&self, tid: i32, now: Ticks, used: Ticks) -> Ticks {
        let slept = self.slept.load(Relaxed);
        let time = now.saturating_sub(self.at.swap(now, Relaxed));
        let slept = slept - self.slept_then.swap(slept, Relaxed);
        let used = used.saturating_sub(self.used_then.swap(used, Relaxed));
        let same = self.tid.swap(tid, Relaxed) == tid;
        if same { time.saturating_sub(slept.saturating_add(used)) } else { 0 }
    }
}

impl Slot {
    /// The carrier sleeps for lack of work.
    #[inline]
    pub(crate) fn asleep<T>(&self, sleep: impl FnOnce() -> T) -> T {
        let from = tsc::now();
        let end = sleep();
        let took = tsc::now().saturating_sub(from);
        let slept = &self.lost.slept;
        slept.store(slept.load(Relaxed).wrapping_add(took), Relaxed);
        end
    }

    /// How much of its CPU the carrier has lost since the last call, until `now`. A system call.
    pub(super) fn lost(&self, now: Ticks) -> Ticks {
        let used = tsc::from_duration(sys::cpu_time_of_this_thread());
        self.lost.since_last(self.tid.load(Relaxed), now, used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_neither_used_nor_slept_is_lost() {
        let lost = Lost::new();
        assert_eq!(lost.since_last(1, 10_000, 7_000), 0, "asked for the first time");
        assert_eq!(lost.since_last(1, 11_000, 8_000), 0);
        assert_eq!(lost.since_last(1, 12_000, 8_300), 700);
        lost.slept.store(600, Relaxed);
        assert_eq!(lost.since_last(1, 13_000, 8_600), 100);
        assert_eq!(lost.since_last(1, 14_000, 9_700), 0, "time is not exact");
        assert_eq!(lost.since_last(2, 15_000, 300), 0, "another carrier");
        assert_eq!(lost.since_last(2, 16_000, 350), 950);
    }
}
