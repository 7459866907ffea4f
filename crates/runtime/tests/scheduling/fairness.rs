//! Nobody starves: equal threads that never wait get comparable shares under every policy, on any
//! number of workers, also while kernel threads make more of them.
//!
//! The bounds are wide, because other programs may use the CPUs. What the rules come to exactly is
//! tested in simulated time, in `quaver-sched`.

use crate::support::{on_runtime, spin, with_runtime};
use quaver::{Builder, Clock, PolicySpec, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

const HOGS: u64 = 8;
const QUANTUM: Duration = Duration::from_micros(200);
/// Longer than any machine needs to give every thread its turn.
const PATIENCE: Duration = Duration::from_secs(60);

/// Threads that count in turns what they have done.
struct Hogs {
    done: [AtomicU64; HOGS as usize],
    stop: AtomicBool,
}

impl Hogs {
    fn new() -> Arc<Hogs> {
        let done = std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Hogs { done, stop: AtomicBool::new(false) })
    }

    fn work(&self, index: u64) {
        while !self.stop.load(Relaxed) {
            spin(50);
            self.done[index as usize].fetch_add(1, Relaxed);
        }
    }

    /// Waits, on a kernel thread, until much has been done and none has done less than a fifth of
    /// its fair share nor more than two and a half of them, or patience ends. (One alone on one of
    /// two workers would come to four.) Then they stop. What each has done.
    fn wait(&self) -> (bool, Vec<u64>) {
        let begin = Instant::now();
        loop {
            std::thread::sleep(Duration::from_millis(5));
            let done: Vec<_> = self.done.iter().map(|done| done.load(Relaxed)).collect();
            let all: u64 = done.iter().sum();
            let is_fair = |&done: &u64| done * 5 * HOGS >= all && done * 2 * HOGS <= all * 5;
            let fair = all > 50_000 && done.iter().all(is_fair);
            if fair || begin.elapsed() > PATIENCE {
                self.stop.store(true, Relaxed);
                return (fair, done);
            }
        }
    }
}

/// Every policy that preempts.
fn preemptive() -> impl Iterator<Item = PolicySpec> {
    let specs = PolicySpec::names().iter().map(|(name, _)| name.parse::<PolicySpec>().unwrap());
    specs.filter(|spec| spec.quantum().is_some()).map(|spec| spec.with_quantum(Some(QUANTUM)))
}

fn builder(policy: &PolicySpec, workers: usize, clock: Clock) -> Builder {
    Builder::new().workers(workers).clock(clock).policy(policy.clone())
}

/// All from one thread, so that they begin in one worker's queue, or from outside.
#[test]
fn equal_hogs_all_get_on() {
    for policy in preemptive() {
        for (workers, clock, from_outside) in [
            (1, Clock::PosixTimer, false),
            (2, Clock::PosixTimer, false),
            (2, Clock::TimerThread, true),
            (4, Clock::PosixTimer, true),
        ] {
            let hogs = Hogs::new();
            let what = format!("{policy}, {workers} workers, {clock:?}");
            let spawn = |hogs: &Arc<Hogs>| -> Vec<_> {
                let spawn = |index| {
                    let hogs = Arc::clone(hogs);
                    quaver::spawn(move || hogs.work(index))
                };
                (0..HOGS).map(spawn).collect()
            };
            with_runtime(builder(&policy, workers, clock), |rt| {
                let spawned = Arc::clone(&hogs);
                let threads = if from_outside { spawn(&hogs) } else { rt.run(|| spawn(&spawned)) };
                let (fair, done) = hogs.wait();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert!(fair, "{what}: {done:?}");
            });
        }
    }
}

/// User threads compute while kernel threads spawn, join and wake others: both get on.
#[test]
fn kernel_threads_beside_user_threads_get_on() {
    for policy in preemptive() {
        for workers in [1, 2, 4] {
            let hogs = Hogs::new();
            with_runtime(builder(&policy, workers, Clock::PosixTimer), |_| {
                let threads: Vec<_> = (0..HOGS)
                    .map(|index| {
                        let hogs = Arc::clone(&hogs);
                        quaver::spawn(move || hogs.work(index))
                    })
                    .collect();
                let makers: Vec<_> = (0..2)
                    .map(|_| {
                        let hogs = Arc::clone(&hogs);
                        std::thread::spawn(move || {
                            let mut made = 0;
                            while !hogs.stop.load(Relaxed) || made < 10 {
                                made += quaver::spawn(|| 1).join().unwrap();
                            }
                            made
                        })
                    })
                    .collect();
                let (fair, done) = hogs.wait();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                let made = makers.into_iter().map(|maker| maker.join().unwrap());
                let made: Vec<u64> = made.collect();
                assert!(fair, "{policy}, {workers} workers: {done:?}, beside {made:?}");
            });
        }
    }
}

/// The lowest priority comes to its end beside the highest, for its age.
#[test]
fn low_priorities_end_beside_high_ones() {
    for clock in [Clock::PosixTimer, Clock::TimerThread] {
        let policy = "priority:quantum=100us,max-age=500us";
        let builder = Builder::new().workers(1).clock(clock).policy_str(policy);
        on_runtime(builder, || {
            let stop = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&stop);
            let high = thread::Builder::new().priority(6).spawn(move || {
                while !seen.load(Relaxed) {
                    spin(50);
                }
            });
            let low = thread::Builder::new().priority(0).spawn(|| {
                (0..500).for_each(|_| _ = spin(50));
            });
            low.unwrap().join().unwrap();
            stop.store(true, Relaxed);
            high.unwrap().join().unwrap();
        });
    }
}
