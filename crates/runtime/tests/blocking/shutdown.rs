//! The end of a runtime with threads in the kernel.

use crate::support::kernel::pipe;
use crate::support::setup::{alone, with_leftover};
use crate::support::{Setup, spin, stats, until, with_runtime};
use std::io::Read;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// A shutdown does not wait for threads in the kernel; another runtime can run, and they go away
/// when their calls return.
#[test]
fn shutting_down_while_threads_wait_in_the_kernel() {
    for setup in Setup::all() {
        println!("-- {setup}");
        let (mut writers, leftover) = with_leftover(setup.builder(), |rt| {
            rt.run(|| {
                let mut writers = Vec::new();
                static READING: AtomicUsize = AtomicUsize::new(0);
                READING.store(0, SeqCst);
                for i in 0..4 {
                    let (mut rx, tx) = pipe().unwrap();
                    writers.push(tx);
                    quaver::spawn_detached(move || {
                        let mut read = || {
                            READING.fetch_add(1, SeqCst);
                            rx.read(&mut [0])
                        };
                        _ = if i % 2 == 0 { quaver::block_in_place(read) } else { read() };
                        unreachable!("a thread ran after the shutdown");
                    });
                }
                // On one worker that means that they wait without it. The second worker need not be
                // given away.
                let away = 4 * (2 - setup.workers as u64);
                until(|| READING.load(SeqCst) == 4 && stats().handovers >= away, |_| _ = spin(500));
                writers
            })
        });
        assert_eq!(leftover.threads, 4);
        assert!(leftover.kernel_threads <= 4, "{leftover:?}");
        let sum = with_runtime(setup.builder(), |rt| {
            // Half of them return now, while the new runtime runs.
            writers.truncate(2);
            rt.run(|| (0..20).map(|i| quaver::spawn(move || i).join().unwrap()).sum::<u32>())
        });
        assert_eq!(sum, 190);
    }
    let carriers = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks
            .filter_map(|t| std::fs::read_to_string(t.unwrap().path().join("comm")).ok())
            .filter(|name| name.starts_with("quaver-"))
            .count()
    };
    alone(|| {
        for _ in 0..60_000 {
            if carriers() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{} kernel threads of ended runtimes are still there", carriers());
    });
}
