//! Time for the generator: [`Clock`], real and simulated.

mod real;
mod sim;

pub use real::{RealClock, reduce_timer_slack};
pub use sim::SimClock;

/// What time it is, and waiting for a later one.
pub trait Clock {
    /// Nanoseconds since the zero of this clock. Never goes back on one thread.
    fn now_ns(&self) -> u64;

    /// Returns when [`now_ns`](Self::now_ns) has reached `time_ns`, at once if it has already. May
    /// block the calling thread in the kernel.
    fn wait_until(&self, time_ns: u64);
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn wait_until(&self, time_ns: u64) {
        (**self).wait_until(time_ns);
    }
}
