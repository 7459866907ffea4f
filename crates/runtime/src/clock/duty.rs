//! What the timer thread may take of a CPU that it has to share with a worker.
//!
//! A thread that wakes as often as a short quantum demands can use most of a CPU. The kernel then
//! finds that it has had more than its share, and lets the worker compute for milliseconds: the
//! shorter the quantum, the fewer the preemptions. So where there is no CPU without a worker, the
//! thread measures what a wake-up costs, in CPU time, and stays away for a multiple of it.

use crate::sys;
use crate::tsc::{self, Ticks};
use core::time::Duration;

/// One part of this many is the thread's at most.
const PARTS: u32 = 4;
/// Wake-ups between two measurements.
const SAMPLE: u32 = 16;

pub(super) struct Duty {
    shares: bool,
    wakes: u32,
    used: Duration,
    /// How long to stay away.
    gap: Ticks,
}

impl Duty {
    /// For the calling thread.
    pub(super) fn new(shares: bool) -> Duty {
        Duty { shares, wakes: 0, used: sys::cpu_time_of_this_thread(), gap: 0 }
    }

    /// Counts a wake-up; for how long to stay away at least.
    pub(super) fn gap(&mut self) -> Ticks {
        if !self.shares {
            return 0;
        }
        self.wakes += 1;
        if self.wakes == SAMPLE {
            let used = sys::cpu_time_of_this_thread();
            self.gap = tsc::from_duration(gap_after(used.saturating_sub(self.used) / SAMPLE));
            (self.wakes, self.used) = (0, used);
        }
        self.gap
    }
}

/// Has every CPU of a clock's `own` a worker that may need it? `pinned`: the workers' CPUs, if they
/// are confined to some.
pub(crate) fn shares(own: &[usize], workers: usize, pinned: &[usize]) -> bool {
    if pinned.is_empty() {
        workers >= own.len()
    } else {
        own.iter().all(|cpu| pinned.contains(cpu))
    }
}

fn gap_after(cost: Duration) -> Duration {
    cost * (PARTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_shared_where_none_is_free() {
        assert!(shares(&[0, 1], 2, &[]));
        assert!(!shares(&[0, 1], 1, &[]));
        assert!(shares(&[0], 1, &[0]));
        assert!(!shares(&[1], 1, &[0]));
        assert!(!shares(&[0, 1, 2], 2, &[0, 2]));
        assert!(shares(&[0, 2], 2, &[0, 1, 2]));
    }

    #[test]
    fn the_gap_follows_the_cost() {
        tsc::init();
        let mut duty = Duty::new(true);
        for _ in 1..SAMPLE {
            assert_eq!(duty.gap(), 0);
        }
        let before = sys::cpu_time_of_this_thread();
        while sys::cpu_time_of_this_thread() < before + Duration::from_millis(16) {}
        let gap = tsc::to_duration(duty.gap());
        assert!(gap >= Duration::from_millis(3 * 16 / SAMPLE as u64), "{gap:?}");
        let mut free = Duty::new(false);
        assert_eq!(free.gap(), 0);
    }
}
