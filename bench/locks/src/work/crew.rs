//! Threads that do one thing again and again for a while, and what they did.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::runnable::{self, Runnable, Watch};
use crate::locks::cycles;

/// Of so many operations, one is timed: reading the clock costs as much as a free lock.
const TIMED: u64 = 17;

/// How many threads, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// That work.
    pub threads: usize,
    /// That compute beside them, with no lock.
    pub background: usize,
    /// On the wall.
    pub time: Duration,
    /// Whether to look at who can run, which costs time.
    pub watch: bool,
}

/// What one thread did.
#[derive(Debug)]
pub struct Tally {
    /// Operations.
    pub ops: u64,
    /// Looks at a lock in vain.
    pub spins: u64,
    /// Cycles that some of the operations took.
    took: Histogram<u64>,
    since: u64,
}

impl Tally {
    fn new() -> Self {
        let took = Histogram::new(2).expect("two digits are allowed");
        Self { ops: 0, spins: 0, took, since: 0 }
    }

    /// Before an operation.
    pub fn begin(&mut self) {
        if self.ops.is_multiple_of(TIMED) {
            self.since = cycles();
        }
    }

    /// After it.
    pub fn end(&mut self, spins: u64) {
        if self.ops.is_multiple_of(TIMED) {
            let took = cycles().saturating_sub(self.since);
            self.took.record(took).expect("it grows as needed");
        }
        self.ops += 1;
        self.spins += spins;
    }
}

/// What all did.
#[derive(Debug)]
pub struct Done {
    /// Operations of each thread.
    pub ops: Vec<u64>,
    /// Looks in vain.
    pub spins: u64,
    /// Cycles that operations took.
    pub latency: Histogram<u64>,
    /// Cycles of the TSC in a nanosecond.
    pub cycles_per_ns: f64,
    /// On the wall, until the last one ended.
    pub took: Duration,
    /// Switches of the process: given away, taken away.
    pub switches: [u64; 2],
    /// How many threads could run, if that was asked for.
    pub runnable: Option<Runnable>,
}

impl Done {
    /// Operations of all threads.
    pub fn total(&self) -> u64 {
        self.ops.iter().sum()
    }

    /// The share of the busier half of the threads: 0.5 is fair, 1 is not. `None` for one thread.
    /// (FlexGuard 5.5.)
    pub fn fairness(&self) -> Option<f64> {
        let mut ops = self.ops.clone();
        ops.sort_unstable_by(|a, b| b.cmp(a));
        let half = ops.len() / 2;
        let mut busier: f64 = ops[..half].iter().map(|&ops| ops as f64).sum();
        if !ops.len().is_multiple_of(2) {
            busier += ops[half] as f64 / 2.0;
        }
        (half > 0 && self.total() > 0).then(|| busier / self.total() as f64)
    }
}

/// Switches of this process so far: given away, taken away.
pub fn switches() -> [u64; 2] {
    // SAFETY: zeros are a valid `rusage`, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    [usage.ru_nvcsw, usage.ru_nivcsw].map(|count| count.try_into().unwrap_or(0))
}

impl Crew {
    /// Lets each thread make a worker with `make` and call it until the time is over. A worker does
    /// one operation, and tells the tally.
    pub fn run<W: FnMut(&mut Tally)>(&self, make: impl Fn(usize) -> W + Sync) -> Done {
        let (stop, start) = (AtomicBool::new(false), Barrier::new(self.threads + 1));
        let tids = Mutex::new(Vec::new());
        let one = |index: usize| {
            let (mut work, mut tally) = (make(index), Tally::new());
            let before = quaver_lock::pauses();
            tids.lock().expect("no panic").push(runnable::tid());
            start.wait();
            while !stop.load(Relaxed) {
                work(&mut tally);
            }
            tally.spins += quaver_lock::pauses() - before;
            tally
        };
        std::thread::scope(|s| {
            let (one, stop) = (&one, &stop);
            let all: Vec<_> = (0..self.threads).map(|i| s.spawn(move || one(i))).collect();
            for _ in 0..self.background {
                s.spawn(|| {
                    while !stop.load(Relaxed) {
                        std::hint::black_box(cycles());
                    }
                });
            }
            start.wait();
            let (before, begun, from) = (switches(), Instant::now(), cycles());
            let runnable = if self.watch {
                Some(Watch::of(&tids.lock().expect("no panic")).during(self.time))
            } else {
                std::thread::sleep(self.time);
                None
            };
            stop.store(true, Relaxed);
            let tallies: Vec<_> =
                all.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            let (took, cycles) = (begun.elapsed(), cycles() - from);
            let after = switches();
            let mut latency = Histogram::new(2).expect("two digits are allowed");
            for tally in &tallies {
                latency.add(&tally.took).expect("it grows as needed");
            }
            Done {
                ops: tallies.iter().map(|tally| tally.ops).collect(),
                spins: tallies.iter().map(|tally| tally.spins).sum(),
                latency,
                cycles_per_ns: cycles as f64 / took.as_nanos() as f64,
                took,
                switches: [0, 1].map(|i| after[i] - before[i]),
                runnable,
            }
        })
    }
}

/// Lets `cycles` of the TSC pass.
pub fn pause(length: u64) {
    let begun = cycles();
    while cycles().wrapping_sub(begun) < length {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(ops: &[u64]) -> Done {
        Done {
            ops: ops.into(),
            spins: 0,
            latency: Histogram::new(2).unwrap(),
            cycles_per_ns: 1.0,
            took: Duration::ZERO,
            switches: [0; 2],
            runnable: None,
        }
    }

    #[test]
    fn the_fairness_factor_is_the_busier_half() {
        assert_eq!(done(&[5, 5, 5, 5]).fairness(), Some(0.5));
        assert_eq!(done(&[0, 10]).fairness(), Some(1.0));
        assert_eq!(done(&[1, 2, 1]).fairness(), Some(0.625));
        assert_eq!(done(&[7]).fairness(), None);
        assert_eq!(done(&[0, 0]).fairness(), None);
    }

    #[test]
    fn operations_are_counted_and_timed() {
        let crew = Crew { threads: 2, background: 1, time: Duration::from_millis(50), watch: true };
        let done = crew.run(|_| {
            |tally: &mut Tally| {
                tally.begin();
                pause(1000);
                tally.end(3);
            }
        });
        assert!(done.ops.iter().all(|&ops| ops > 0), "{done:?}");
        assert_eq!(done.spins, 3 * done.total());
        assert!(done.latency.min() >= 990, "{}", done.latency.min());
        let runnable = done.runnable.unwrap();
        assert!(runnable.max <= 2.0 && runnable.mean > 0.5, "{runnable:?}");
        assert!(done.took >= Duration::from_millis(50));
    }
}
