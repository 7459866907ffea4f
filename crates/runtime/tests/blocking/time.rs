//! Waits that end by themselves.

use crate::support::{Setup, stats};
use std::sync::{Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

#[test]
fn timed_waits_end() {
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 1..5u64 {
                    s.spawn(move || {
                        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
                        let (_tx, rx) = mpsc::channel::<()>();
                        for k in 0..20 {
                            let time = Duration::from_micros(i * 37 + k);
                            let start = Instant::now();
                            match k % 4 {
                                0 => {
                                    let mut guard = mutex.lock().unwrap();
                                    loop {
                                        let (g, result) =
                                            condvar.wait_timeout(guard, time).unwrap();
                                        guard = g;
                                        if result.timed_out() {
                                            break;
                                        }
                                    }
                                }
                                1 => assert!(rx.recv_timeout(time).is_err()),
                                2 => std::thread::sleep(time),
                                _ => quaver::sleep_until(start + time),
                            }
                            assert!(start.elapsed() >= time);
                        }
                    });
                }
            });
        });
    }
}

/// A sleep of `std` parks the thread: any number of them takes no kernel threads.
#[test]
fn sleeping_takes_no_kernel_thread() {
    for setup in Setup::clocks(1) {
        setup.run(|| {
            let threads: Vec<_> = (0..500)
                .map(|i| {
                    quaver::spawn(move || {
                        for _ in 0..3 {
                            std::thread::sleep(Duration::from_micros(i));
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            // Malloc's locks are those of the whole process: other tests may hold one.
            let handovers = stats().handovers;
            assert!(handovers < 10, "{handovers} of 1500 sleeps");
            assert!(stats().timers_fired >= 500);
        });
    }
}
