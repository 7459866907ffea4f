//! The clocks: when they interrupt, and that they stop.

use crate::support::kernel::{pipe, wait_readable};
use crate::support::setup::with_leftover;
use crate::support::{Setup, on_runtime, spin, with_runtime};
use quaver::thread::Builder as Threads;
use quaver::{Builder, Clock, yield_now};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// A quantum that no test lives to see the end of.
const FOR_EVER: &str = "priority:quantum=900s,max-age=none";

fn forever(clock: Clock, workers: usize) -> Builder {
    Builder::new().clock(clock).workers(workers).policy_str(FOR_EVER)
}

/// Also a clock that has planned to sleep for a quantum.
#[test]
fn a_shutdown_waits_for_no_quantum() {
    for setup in Setup::all_clocks() {
        let (_, leftover) = with_leftover(forever(setup.clock, setup.workers), |rt| {
            rt.run(|| {
                let other = quaver::spawn(yield_now);
                yield_now();
                other.join().unwrap();
            });
        });
        assert_eq!((leftover.threads, leftover.kernel_threads), (0, 0), "{setup}");
    }
}

/// The clock has been set for the end of a quantum when something better comes.
#[test]
fn a_better_thread_runs_at_once() {
    for setup in Setup::clocks(1) {
        on_runtime(forever(setup.clock, 1), || {
            let equal = quaver::spawn(|| ());
            yield_now();
            let second = quaver::spawn(|| ());
            let ran = Arc::new(AtomicBool::new(false));
            let better = Threads::new().priority(7).spawn({
                let ran = ran.clone();
                move || ran.store(true, SeqCst)
            });
            assert!(ran.load(SeqCst), "{setup}: it was left to wait");
            better.unwrap().join().unwrap();
            equal.join().unwrap();
            second.join().unwrap();
        });
    }
}

/// The second best of three becomes runnable on the worker that the best one keeps.
#[test]
fn a_better_thread_takes_another_worker() {
    for setup in Setup::clocks(2) {
        on_runtime(forever(setup.clock, 2), || {
            let boss = Threads::new().priority(7).spawn(|| {
                let busy = Arc::new(AtomicBool::new(false));
                let done = Arc::new(AtomicBool::new(false));
                let hog = quaver::spawn({
                    let (busy, done) = (busy.clone(), done.clone());
                    move || {
                        busy.store(true, SeqCst);
                        while !done.load(SeqCst) {
                            spin(100);
                        }
                    }
                });
                while !busy.load(SeqCst) {
                    spin(100);
                }
                let better = Threads::new().priority(6).spawn({
                    let done = done.clone();
                    move || done.store(true, SeqCst)
                });
                while !done.load(SeqCst) {
                    spin(100);
                }
                better.unwrap().join().unwrap();
                hog.join().unwrap();
            });
            boss.unwrap().join().unwrap();
        });
    }
}

/// Kernel threads bring work while the only worker's threads give way to each other: the clock's
/// thread must hear of both.
#[test]
fn a_hog_is_stopped_for_the_one_that_it_gave_way_to() {
    const ROUNDS: usize = 2_000;
    for clock in [Clock::TimerThread, Clock::PosixTimer] {
        let builder = Builder::new().clock(clock).workers(1).policy_str("rr:quantum=20us");
        on_runtime(builder, || {
            let (turn, start) = (AtomicUsize::new(0), Barrier::new(2));
            quaver::scope(|s| {
                for me in 0..2 {
                    let (turn, start) = (&turn, &start);
                    s.spawn(move || {
                        start.wait();
                        for round in 0..ROUNDS {
                            // Waits for the other one without giving way, sometimes for long enough
                            // that the clock sleeps.
                            while turn.load(SeqCst) % 2 != me {
                                std::hint::spin_loop();
                            }
                            turn.fetch_add(1, SeqCst);
                            if round % 3 == 0 {
                                yield_now();
                            }
                        }
                    });
                }
            });
        });
    }
}

/// What a thread waits for in the kernel comes from another one of the same worker, and nobody is
/// preempted.
#[test]
fn a_thread_that_blocks_hangs_nobody_without_a_quantum() {
    let policies = ["fifo", "ws:quantum=none", "two-queue:quantum=none", FOR_EVER];
    for (policy, poll) in policies.into_iter().flat_map(|p| [(p, false), (p, true)]) {
        println!("-- {policy}, poll: {poll}");
        on_runtime(Builder::new().workers(1).policy_str(policy), || {
            let (mut rx, mut tx) = pipe().unwrap();
            let reads = quaver::spawn(move || {
                // Which the kernel does not restart.
                while poll && wait_readable(rx.as_raw_fd()).is_err() {}
                let mut byte = [0];
                rx.read_exact(&mut byte).unwrap();
                byte[0]
            });
            let writes = quaver::spawn(move || {
                quaver::sleep(Duration::from_millis(5));
                tx.write_all(&[7]).unwrap();
            });
            assert_eq!(reads.join().unwrap(), 7);
            writes.join().unwrap();
        });
    }
}

/// Where nothing is to be preempted, nobody who computes is.
#[test]
fn a_thread_that_computes_is_not_rescued() {
    on_runtime(Builder::new().workers(1).policy_str("fifo"), || {
        let other = quaver::spawn(Instant::now);
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(400) {
            spin(1_000);
        }
        let end = Instant::now();
        assert!(other.join().unwrap() >= end, "it ran in the middle");
    });
}

/// Looks that find nothing become rare, until a thread outlives its quantum: then it is preempted,
/// and others after it on time.
///
/// Where the machine stops for longer than a quantum threads look long, and looks are frequent for
/// 10 ms. So much is allowed for a stop before the beginning, and of many tries one without a stop
/// must do.
#[test]
fn short_threads_cost_no_quantum() {
    const TIME: Duration = Duration::from_millis(50);
    const QUANTUM: Duration = Duration::from_micros(20);
    /// An interruption itself takes less.
    const STOP: Duration = Duration::from_micros(100);
    const AFTER_A_STOP: Duration = Duration::from_millis(10);
    for clock in [Clock::PosixTimer, Clock::TimerThread] {
        let builder = Builder::new().clock(clock).workers(1).quantum(Some(QUANTUM));
        with_runtime(builder, |rt| {
            // The number of interruptions, and whether that says anything.
            let interruptions = |_| {
                let before = rt.stats().preempt_received;
                let stops = AtomicUsize::new(0);
                rt.run(|| {
                    let end = Instant::now() + TIME;
                    let turns = || {
                        let mut last = Instant::now();
                        while last < end {
                            yield_now();
                            let gap = last.elapsed();
                            if gap > STOP {
                                stops.fetch_add(1, SeqCst);
                            }
                            last = Instant::now();
                        }
                    };
                    quaver::scope(|s| [(); 2].map(|()| _ = s.spawn(turns)));
                });
                let stops = stops.into_inner();
                (rt.stats().preempt_received - before, stops == 0)
            };
            let most = (TIME / 4 + AFTER_A_STOP).as_nanos() / QUANTUM.as_nanos();
            let mut tries = (0..100).map(interruptions).filter(|&(_, counts)| counts).peekable();
            if tries.peek().is_none() {
                println!("{clock}: the machine stops all the time");
            } else {
                assert!(tries.any(|(n, _)| u128::from(n) < most), "{clock}");
            }
            // A hog is stopped all the same.
            let (done, useful) = (AtomicBool::new(false), rt.stats().preempt_useful);
            rt.run(|| {
                quaver::scope(|s| {
                    let hog = s.spawn(|| {
                        while !done.load(SeqCst) {
                            _ = spin(100)
                        }
                    });
                    while rt.stats().preempt_useful < useful + 20 {
                        yield_now();
                    }
                    done.store(true, SeqCst);
                    hog.join().unwrap();
                });
            });
        });
    }
}
