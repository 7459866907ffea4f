//! The clock of the machine.

use std::io;
use std::num::NonZeroU64;
use std::thread;

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::Clock;

const NS_PER_S: u64 = 1_000_000_000;

/// `CLOCK_MONOTONIC`, counted from the moment at which this value was made. Copies share the zero.
///
/// [`now_ns`](Clock::now_ns) reads the clock without entering the kernel where the machine allows
/// it; it may be called on user threads and be preempted. [`wait_until`](Clock::wait_until) sleeps
/// in the kernel until the *spin threshold* before the time and spins from there. The sleep is
/// until an absolute time, so being preempted before it begins costs nothing.
///
/// A spinning generator is punctual to a fraction of a microsecond, and takes a core while gaps are
/// below the threshold. On a small machine it starves what it is to measure; use a threshold of 0
/// there: each send is then as late as the kernel's wake-up (see [`reduce_timer_slack`]), which the
/// lateness histogram shows.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    zero_ns: u64,
    spin_ns: u64,
}

impl RealClock {
    /// A clock that is at 0 now, with a spin threshold for this machine: 20 µs, or 0 on one or two
    /// processors.
    pub fn start() -> Self {
        let processors = thread::available_parallelism().map_or(1, |n| n.get());
        Self::with_spin_ns(if processors > 2 { 20_000 } else { 0 })
    }

    /// A clock that is at 0 now; a wait spins when it is within `spin_ns` nanoseconds of its end.
    pub fn with_spin_ns(spin_ns: u64) -> Self {
        Self { zero_ns: monotonic_ns(), spin_ns }
    }

    /// The spin threshold in nanoseconds.
    pub fn spin_ns(&self) -> u64 {
        self.spin_ns
    }

    fn sleep_until(&self, time_ns: u64) {
        let absolute = self.zero_ns.saturating_add(time_ns);
        let request = Timespec {
            tv_sec: (absolute / NS_PER_S) as i64,
            tv_nsec: (absolute % NS_PER_S) as i64,
        };
        // Interrupted by a signal handler or not: the caller looks at the clock again.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &request);
    }
}

impl Clock for RealClock {
    fn now_ns(&self) -> u64 {
        monotonic_ns() - self.zero_ns
    }

    fn wait_until(&self, time_ns: u64) {
        loop {
            let now = self.now_ns();
            if now >= time_ns {
                return;
            }
            if time_ns - now > self.spin_ns {
                self.sleep_until(time_ns - self.spin_ns);
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

/// Makes sleeps of the calling kernel thread end as near to their time as the kernel can; by
/// default it may add 50 µs to save power. To be called once on the generator's thread. Not for
/// user threads: it acts on the carrier.
///
/// # Errors
///
/// When the kernel refuses, which it does for real-time threads that have no slack in the first
/// place.
pub fn reduce_timer_slack() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_not_short_and_time_does_not_go_back() {
        for spin_ns in [0, 100_000, u64::MAX] {
            let clock = RealClock::with_spin_ns(spin_ns);
            let mut last = 0;
            for step in [0, 1, 1_000, 60_000, 300_000] {
                let until = clock.now_ns() + step;
                clock.wait_until(until);
                let now = clock.now_ns();
                assert!(now >= until && now >= last);
                last = now;
            }
            clock.wait_until(0);
        }
    }

    #[test]
    fn copies_share_the_zero() {
        let clock = RealClock::start();
        let copy = clock;
        let (a, b, c) = (clock.now_ns(), copy.now_ns(), clock.now_ns());
        assert!(a <= b && b <= c);
    }

    #[test]
    fn timer_slack_can_be_reduced() {
        std::thread::spawn(|| {
            reduce_timer_slack().unwrap();
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
        })
        .join()
        .unwrap();
    }
}
