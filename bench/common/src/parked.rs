//! Memory of this process, and the row of threads that wait.

use crate::clock::Stopwatch;
use crate::outcome::Sample;

/// The names of the metrics of [`Parking`].
pub const METRICS: [&str; 3] = ["bytes_per_thread", "park_ns_per_thread", "wake_ns_per_thread"];

/// Resident memory of this process in bytes, page tables included (with a million stacks they
/// count). `None` where `/proc` is not mounted.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(field(&status, "VmRSS:")? + field(&status, "VmPTE:")?)
}

/// A field of `/proc/PID/status` or `/proc/meminfo` that is in kB, in bytes.
pub fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Measures the life of threads that wait: make it, spawn them, [`parked`](Self::parked), wake and
/// join them, [`finish`](Self::finish).
pub struct Parking {
    threads: u64,
    before: Option<u64>,
    watch: Stopwatch,
    sample: Sample,
}

impl Parking {
    /// Before the first of `threads` threads is made.
    pub fn start(threads: u64) -> Self {
        let before = resident_bytes();
        Self { threads, before, watch: Stopwatch::start(), sample: Sample::default() }
    }

    fn per_thread(&self, total: u64) -> f64 {
        total as f64 / self.threads as f64
    }

    /// All threads wait.
    pub fn parked(mut self) -> Self {
        let elapsed = self.watch.elapsed();
        let sample =
            std::mem::take(&mut self.sample).with(METRICS[1], self.per_thread(elapsed.wall_ns));
        self.sample = match (self.before, resident_bytes()) {
            (Some(before), Some(now)) => {
                sample.with(METRICS[0], self.per_thread(now.saturating_sub(before)))
            }
            _ => sample,
        };
        self.watch = Stopwatch::start();
        self
    }

    /// All threads have been woken and have ended.
    pub fn finish(self) -> Sample {
        let elapsed = self.watch.elapsed();
        let wake = self.per_thread(elapsed.wall_ns);
        Sample { ops: self.threads, ..self.sample }.with(METRICS[2], wake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_scaled() {
        let text = "VmPeak:\t    9000 kB\nVmRSS:\t    1234 kB\nThreads:\t1\n";
        assert_eq!(field(text, "VmRSS:"), Some(1234 * 1024));
        assert_eq!(field(text, "Threads:"), None);
        assert_eq!(field(text, "VmPTE:"), None);
    }

    #[test]
    fn memory_of_waiting_threads_is_seen() {
        let parking = Parking::start(4);
        let memory: Vec<Vec<u8>> = (0..4).map(|_| vec![1; 1 << 20]).collect();
        let sample = parking.parked().finish();
        std::hint::black_box(memory);
        assert!(METRICS.iter().all(|name| sample.metrics.contains_key(*name)), "{sample:?}");
        // Other tests may free some at the same time.
        assert!(sample.metrics["bytes_per_thread"] >= (1 << 19) as f64, "{sample:?}");
    }
}
