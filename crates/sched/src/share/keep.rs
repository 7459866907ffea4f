//! How long a core is kept that has nothing to do.

use crate::Time;

/// One gap in this many counts for the mean.
const MEMORY: u64 = 8;
/// A gap counts as this many cycles at most: one long one must not be remembered for long.
const MOST: u64 = 4;

/// The memory of one worker.
///
/// To give a core up and have it back takes a *cycle* of time. A gap that is shorter than that is
/// better spent waiting: given up, the core would serve nobody. So the worker parks at once while
/// gaps have lately been longer than a cycle on average, and otherwise looks for work for one cycle
/// first. Looking that long costs twice the better of both at the most, whatever comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    cycle: Time,
    /// The mean of recent gaps, times [`MEMORY`].
    mean: u64,
}

impl Keep {
    /// For a cycle of this length. It begins by parking at once.
    pub fn new(cycle: Time) -> Keep {
        let cycle = cycle.min(Time::MAX / (MEMORY * MOST * 2));
        Keep { cycle, mean: cycle * MEMORY * 2 }
    }

    /// How long to look for work before the core is given up; 0: not at all.
    pub fn span(&self) -> Time {
        if self.mean / MEMORY < self.cycle { self.cycle } else { 0 }
    }

    /// Work has come, `gap` after the worker ran out of it; whether it had parked does not
    /// matter.
    pub fn gap(&mut self, gap: Time) {
        let gap = gap.min(self.cycle.saturating_mul(MOST));
        self.mean = self.mean - self.mean / MEMORY + gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_parks_at_once_where_gaps_are_long_and_waits_where_they_are_short() {
        let mut keep = Keep::new(600);
        assert_eq!(keep.span(), 0);
        (0..20).for_each(|_| keep.gap(100));
        assert_eq!(keep.span(), 600);
        // One long gap is no reason to change; several are.
        keep.gap(1_000_000);
        assert_eq!(keep.span(), 600);
        (0..20).for_each(|_| keep.gap(5_000));
        assert_eq!(keep.span(), 0);
    }

    #[test]
    fn one_outlier_is_forgotten_soon() {
        let mut keep = Keep::new(600);
        keep.gap(Time::MAX);
        let needed = (0..).take_while(|_| (keep.gap(100), keep.span()).1 == 0).count();
        assert!(needed < 20, "{needed}");
    }

    #[test]
    fn no_cycle_is_no_wait() {
        let mut keep = Keep::new(0);
        (0..50).for_each(|_| keep.gap(0));
        assert_eq!(keep.span(), 0);
        let mut long = Keep::new(Time::MAX);
        (0..50).for_each(|_| long.gap(0));
        long.gap(Time::MAX);
        assert!(long.span() > 0);
    }
}
