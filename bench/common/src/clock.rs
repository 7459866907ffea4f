//! The clocks of measurements, in nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CPU time that this process has used, all its threads together. A system call of about 0.2 µs.
pub fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

/// CPU time that the calling kernel thread has used. A system call of about 0.2 µs.
///
/// A user thread that moves between kernel threads gets the time of the one that it is on.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// `CLOCK_MONOTONIC`: the same in all processes, and the clock of [`std::time::Instant`].
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

fn nanoseconds(time: Timespec) -> u64 {
    // These clocks start at zero, so neither part is negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    cpu: u64,
    wall: u64,
}

/// What a [`Stopwatch`] measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed {
    /// CPU time of the process, in ns.
    pub cpu_ns: u64,
    /// Time on the wall, in ns.
    pub wall_ns: u64,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self { cpu: process_cpu_ns(), wall: monotonic_ns() }
    }

    /// How much has passed since the start.
    pub fn elapsed(&self) -> Elapsed {
        Elapsed { cpu_ns: process_cpu_ns() - self.cpu, wall_ns: monotonic_ns() - self.wall }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance_with_work() {
        let watch = Stopwatch::start();
        let thread = thread_cpu_ns();
        // Enough for the CPU clock of any kernel to move, however it counts.
        while watch.elapsed().cpu_ns < 1_000_000 {
            crate::compute::scalar(1, 1000);
        }
        assert!(thread_cpu_ns() > thread);
        assert!(watch.elapsed().wall_ns > 0);
    }
}
