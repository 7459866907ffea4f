//! The kernel-bypass timer: one for each core, set by the program, delivered without a UPID (xUI
//! 4.3). A kernel multiplexes it: it takes the timer's state with a thread, and gives it back.

use crate::fault::Fault;

/// The KB timer (xUI 4.3).
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The user vector it raises; nothing if the kernel has not enabled it.
    pub vector: Option<u8>,
    /// When it fires next, in cycles of the time-stamp counter.
    pub deadline: Option<u64>,
    /// Cycles between interrupts; 0 if it is to fire once.
    pub period: u64,
}

impl Timer {
    /// `set_timer`: `mode` bit 0 makes `cycles` a period, otherwise it is a deadline.
    ///
    /// # Errors
    ///
    /// The kernel has not enabled the timer, or the period is 0.
    pub fn set(&mut self, now: u64, cycles: u64, mode: u64) -> Result<(), Fault> {
        if self.vector.is_none() {
            return Err(Fault::Protection(
                "set_timer, but the timer is not enabled (enable_kb_timer)",
            ));
        }
        if mode & 1 == 1 && cycles == 0 {
            return Err(Fault::Protection("set_timer with a period of 0 cycles"));
        }
        (self.period, self.deadline) = if mode & 1 == 1 {
            (cycles, Some(now.saturating_add(cycles)))
        } else {
            (0, Some(cycles))
        };
        Ok(())
    }

    /// `clear_timer`.
    ///
    /// # Errors
    ///
    /// The kernel has not enabled the timer.
    pub fn clear(&mut self) -> Result<(), Fault> {
        if self.vector.is_none() {
            return Err(Fault::Protection(
                "clear_timer, but the timer is not enabled (enable_kb_timer)",
            ));
        }
        self.deadline = None;
        Ok(())
    }

    /// The vector to raise, if the deadline has come. A periodic timer skips periods that have
    /// passed unseen.
    pub fn expired(&mut self, now: u64) -> Option<u8> {
        let deadline = self.deadline.filter(|&deadline| deadline <= now)?;
        self.deadline = (self.period != 0)
            .then(|| deadline + ((now - deadline) / self.period + 1) * self.period);
        self.vector
    }

    /// What the kernel reads from `kb_timer_state_MSR` and keeps with a thread that leaves the
    /// core. The timer is disabled then: it must not fire for another thread.
    #[must_use]
    pub fn save(&mut self) -> Timer {
        std::mem::take(self)
    }

    /// What the kernel writes when the thread comes back, at time `now`. Says whether the deadline
    /// has passed meanwhile: the timer then fires at once.
    pub fn restore(&mut self, saved: Timer, now: u64) -> bool {
        *self = saved;
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_once_or_in_periods() {
        let mut timer = Timer::default();
        assert!(timer.set(0, 100, 1).is_err(), "the kernel has not enabled it");
        timer.vector = Some(3);
        assert!(timer.set(0, 0, 1).is_err());
        timer.set(50, 100, 1).unwrap();
        assert_eq!(
            (timer.expired(149), timer.expired(150), timer.expired(151)),
            (None, Some(3), None)
        );
        // Periods that nobody saw are skipped.
        assert_eq!((timer.expired(475), timer.deadline), (Some(3), Some(550)));
        timer.set(500, 700, 0).unwrap();
        assert_eq!((timer.expired(700), timer.expired(9000)), (Some(3), None));
    }

    #[test]
    fn a_saved_timer_fires_for_its_own_thread_only() {
        let mut timer = Timer { vector: Some(3), ..Timer::default() };
        timer.set(0, 1000, 0).unwrap();
        let saved = timer.save();
        assert_eq!((timer.vector, timer.expired(2000)), (None, None));
        let mut early = timer.clone();
        assert!(!early.restore(saved.clone(), 999));
        assert!(timer.restore(saved, 1500));
        assert_eq!(timer.expired(1500), Some(3));
    }
}
