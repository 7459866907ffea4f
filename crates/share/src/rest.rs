//! A worker without work: a core is given up only where the gap is likely to be longer than giving
//! it up and having it back takes. (Skyloft 5.2: no thrashing.)
//!
//! For programs without Quaver's runtime, whose workers have their own measure of patience.

use crate::door::{Doors, ticks};
use quaver_sched::share::Keep;
use std::time::Duration;

/// The memory of one worker of a latency-critical member.
#[derive(Clone, Debug)]
pub struct Rest {
    keep: Keep,
    /// Since when there has been nothing to do.
    since: Option<u64>,
}

impl Rest {
    /// For the cycle that the broker has measured.
    pub fn new(doors: &Doors) -> Rest {
        Rest { keep: Keep::new(doors.cycle_ticks()), since: None }
    }

    /// There is nothing to do: looks for work for one cycle where gaps have lately been shorter
    /// than that, and then parks, as [`Doors::park`] does. Whether there is work now; `false`:
    /// `limit`, 10 ms or less are over. The caller is the worker of this core.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    pub fn wait(
        &mut self,
        doors: &Doors,
        place: usize,
        has_work: impl Fn() -> bool,
        limit: Option<Duration>,
    ) -> bool {
        let begun = ticks();
        let since = *self.since.get_or_insert(begun);
        let until = begun + self.keep.span();
        let mut came = None;
        while came.is_none() && ticks() < until {
            came = has_work().then(ticks);
            std::hint::spin_loop();
        }
        if came.is_none() {
            // Until the bell was rung: what follows is the cost of sleeping.
            let rung_at = doors.park(place, || !has_work(), limit);
            came = has_work().then(|| rung_at.unwrap_or_else(ticks));
        }
        if let Some(came) = came {
            self.keep.gap(came.saturating_sub(since));
            self.since = None;
        }
        came.is_some()
    }
}
