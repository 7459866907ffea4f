//! The timers of the workers' CPUs, given to user mode by the kernel (Skyloft, section 3.2). They
//! tick for as long as a worker runs there, and each tick asks the policy: there is nothing to arm,
//! nobody to wake, and no other core. The notification starts them
//! ([`user_interrupt`](crate::preempt::user_interrupt)), for each carrier that takes a slot.
//!
//! A tick costs a fraction of what any other expiry does, and comes where nothing waits, too. So
//! ticks are half a quantum apart: a thread is stopped up to half a quantum late.

use crate::config::Clock;
use std::time::Duration;

/// Between two ticks, at least.
const LEAST: Duration = Duration::from_micros(5);

/// How often they tick, where they keep time and there is a quantum.
pub(crate) fn ticks(clock: Clock, quantum: Option<Duration>) -> Option<Duration> {
    quantum.filter(|_| clock == Clock::DelegatedTimer).map(|quantum| (quantum / 2).max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_come_twice_in_a_quantum() {
        let of = |us| ticks(Clock::DelegatedTimer, Some(Duration::from_micros(us)));
        assert_eq!(of(100), Some(Duration::from_micros(50)));
        assert_eq!(of(6), Some(LEAST));
        assert_eq!(ticks(Clock::DelegatedTimer, None), None);
        assert_eq!(ticks(Clock::PosixTimer, Some(LEAST)), None);
    }
}
