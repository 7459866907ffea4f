//! Runtimes of all kinds, one at a time.

use super::watchdog;
use quaver::{Builder, Clock, Leftover, Resume, Runtime};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable with the notification of all runtimes of a [`Setup`].
pub const NOTIFICATION: &str = "QUAVER_TEST_NOTIFICATION";
/// The environment variable with the only clock to test, where others take too long.
const CLOCK: &str = "QUAVER_TEST_CLOCK";

/// A kind of runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Who keeps time.
    pub clock: Clock,
    /// How many workers.
    pub workers: usize,
    /// How preempted threads continue.
    pub resume: Resume,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} workers, resume {}", self.clock, self.workers, self.resume)
    }
}

impl Setup {
    /// All combinations of clocks, one or two workers, and ways to resume.
    pub fn all() -> Vec<Setup> {
        [1, 2].into_iter().flat_map(Setup::with_workers).collect()
    }

    /// Those with this number of workers.
    pub fn with_workers(workers: usize) -> Vec<Setup> {
        let mut all = Vec::new();
        let only: Option<Clock> = std::env::var(CLOCK).ok().map(|clock| clock.parse().unwrap());
        let mut clocks = vec![Clock::PosixTimer, Clock::TimerThread, Clock::TimerCore];
        clocks.retain(|clock| only.is_none_or(|only| only == *clock));
        for clock in clocks {
            for resume in [Resume::Auto, Resume::Sigreturn] {
                all.push(Setup { clock, workers, resume });
            }
        }
        all
    }

    /// One for each clock, for tests that are not about resuming.
    pub fn clocks(workers: usize) -> Vec<Setup> {
        let mut all = Setup::with_workers(workers);
        all.retain(|s| s.resume == Resume::Auto);
        all
    }

    /// [`clocks`](Setup::clocks) on one and on two workers.
    pub fn all_clocks() -> Vec<Setup> {
        [1, 2].into_iter().flat_map(Setup::clocks).collect()
    }

    /// A quantum near the shortest that the clock can keep.
    pub fn quantum(&self) -> Duration {
        Duration::from_micros(match self.clock {
            Clock::PosixTimer | Clock::DelegatedTimer | Clock::Auto => 20,
            Clock::TimerThread => 10,
            Clock::TimerCore => 5,
        })
    }

    /// How many preemptions a test should wait for that wants about `n`. A timer core that has to
    /// share its CPU with the worker interrupts it only once in each of the kernel's time slices.
    pub fn preemptions(&self, n: u64) -> u64 {
        if self.clock == Clock::TimerCore { n.div_ceil(10) } else { n }
    }

    /// The builder of such a runtime.
    pub fn builder(&self) -> Builder {
        let builder = Builder::new()
            .clock(self.clock)
            .workers(self.workers)
            .resume(self.resume)
            .quantum(Some(self.quantum()));
        match std::env::var(NOTIFICATION) {
            Ok(notification) => builder.notification(notification.parse().unwrap()),
            Err(_) => builder,
        }
    }

    /// Runs `body` on a user thread of such a runtime.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        self.run_with(self.builder(), body)
    }

    /// As [`run`](Setup::run), on a runtime of this kind that has been refined in `builder`.
    pub fn run_with<T: Send>(&self, builder: Builder, body: impl FnOnce() -> T + Send) -> T {
        self.run_built(builder, |rt| rt.run(body))
    }

    /// Runs `body` with such a runtime. What is printed is seen when the test fails.
    pub fn run_built<T>(&self, builder: Builder, body: impl FnOnce(&Runtime) -> T) -> T {
        println!("-- {self}");
        let start = Instant::now();
        let (result, stats) = with_runtime(builder, |rt| (body(rt), rt.stats()));
        println!("   {:?}, {stats:?}", start.elapsed());
        result
    }
}

static TURN: Mutex<()> = Mutex::new(());

/// Runs `body` with a runtime while no other test of this program has one, then shuts it down.
/// Whatever `body` does with threads that outlive it, the result of the shutdown tells.
pub fn with_leftover<T>(builder: Builder, body: impl FnOnce(&Runtime) -> T) -> (T, Leftover) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog::watch();
    let rt = builder.build().unwrap_or_else(|e| panic!("cannot build a runtime: {e}"));
    let result = body(&rt);
    (result, rt.shutdown())
}

/// As [`with_leftover`], for a `body` whose threads all end.
pub fn with_runtime<T>(builder: Builder, body: impl FnOnce(&Runtime) -> T) -> T {
    let (result, leftover) = with_leftover(builder, |rt| {
        let result = body(rt);
        // Threads that nobody joined by name, as in a scope, may be on their last instructions.
        while rt.stats().completed < rt.stats().spawned {
            std::thread::yield_now();
        }
        result
    });
    assert_eq!((leftover.threads, leftover.kernel_threads), (0, 0), "left behind");
    result
}

/// As [`with_runtime`], with `body` on a user thread.
pub fn on_runtime<T: Send>(builder: Builder, body: impl FnOnce() -> T + Send) -> T {
    with_runtime(builder, |rt| rt.run(body))
}

/// A part of a test that builds its runtimes itself, while no other test of this program has one.
pub fn alone<T>(body: impl FnOnce() -> T) -> T {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog::watch();
    body()
}
