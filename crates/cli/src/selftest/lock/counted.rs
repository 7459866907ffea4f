//! Threads that count under a lock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use quaver_lock::{Mutex, monitor};

/// How often all threads together count, at each number of threads.
const ROUNDS: u64 = 200_000;

/// Counts by several numbers of threads; says how often, or what was wrong.
pub(super) fn exact() -> Result<String, String> {
    let mut sum = 0;
    for threads in [1, 2, 4, 8, 16, 32] {
        let each = ROUNDS / threads;
        // Two words that must change together.
        let both = Mutex::new([0u64; 2]);
        std::thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| {
                    for _ in 0..each {
                        let mut both = both.lock();
                        both[0] += 1;
                        std::hint::black_box(&mut *both);
                        both[1] += 1;
                    }
                });
            }
        });
        let (both, all) = (both.into_inner(), each * threads);
        if both != [all; 2] {
            return Err(format!("{threads} threads count {both:?} and not {all}"));
        }
        sum += all;
    }
    Ok(format!("{sum} turns of 1 to 32 threads, all counted"))
}

/// More threads than CPUs hold locks and compute, until one is seen to be preempted; then nobody
/// may be left in the count.
pub(super) fn preempted(patience: Duration) -> Result<String, String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = || monitor::counts().ok_or("the monitor has ended".to_owned());
    let before = counts()?.preempted;
    let begun = Instant::now();
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|s| {
        for _ in 0..2 * cpus {
            s.spawn(|| {
                let lock = Mutex::new(());
                while !stop.load(Relaxed) {
                    let _held = lock.lock();
                    (0..10_000).for_each(|_| std::hint::spin_loop());
                }
            });
        }
        let seen = loop {
            std::thread::sleep(Duration::from_millis(20));
            match counts() {
                Ok(now) if now.preempted >= before + 10 => break Ok(now.preempted - before),
                Ok(_) if begun.elapsed() < patience => {}
                Ok(now) => {
                    let seen = now.preempted - before;
                    break Err(format!("{seen} preemptions of holders in {patience:?}"));
                }
                Err(why) => break Err(why),
            }
        };
        stop.store(true, Relaxed);
        seen
    })?;
    let begun = Instant::now();
    // Others may use locks, too; but not all the time.
    while counts()?.preempted_now > 0 {
        if begun.elapsed() > patience {
            return Err(format!("somebody still counts after {patience:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(format!("{seen} preemptions of holders seen, none is left in the count"))
}
