//! A thread that sleeps in a page fault gives its worker to others, although no signal reaches it.

use crate::slow_file::SlowFile;
use crate::support::{Setup, spin, with_runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_micros(200);
/// Longer than anything takes on a busy machine.
const TOO_LONG: Duration = Duration::from_secs(20);

/// Runs one thread that reads a page beside one that counts, on one worker. The page comes when the
/// other has counted, or after [`TOO_LONG`]. Returns whether it has counted, and the hand-overs.
fn read_beside_a_counter(builder: quaver::Builder) -> Option<(bool, u64)> {
    let (counted, in_time) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let file = SlowFile::new(1, {
        let (counted, in_time) = (counted.clone(), in_time.clone());
        move |_| {
            let (begin, until) = (counted.load(SeqCst), Instant::now() + TOO_LONG);
            while counted.load(SeqCst) < begin + 100 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            in_time.store(counted.load(SeqCst) >= begin + 100, SeqCst);
        }
    })?;
    let done = AtomicBool::new(false);
    let taken = with_runtime(builder, |rt| {
        rt.run(|| {
            quaver::scope(|s| {
                s.spawn(|| {
                    assert_eq!(file.read(0), 1);
                    done.store(true, SeqCst);
                });
                s.spawn(|| {
                    while !done.load(SeqCst) {
                        counted.fetch_add(1, SeqCst);
                        spin(100);
                        // For setups without a quantum.
                        quaver::yield_now();
                    }
                });
            });
        });
        rt.stats().fault_handovers
    });
    Some((in_time.load(SeqCst), taken))
}

/// On each clock, and without a quantum, where the looks of every 100 ms are enough.
#[test]
fn others_run_while_a_page_is_read() {
    for setup in Setup::with_workers(1) {
        println!("-- {setup}");
        let Some(outcome) = read_beside_a_counter(setup.builder().fault_look(Some(LOOK))) else {
            return;
        };
        assert!(outcome.0 && outcome.1 > 0, "{setup}: {outcome:?}");
    }
    println!("-- no quantum");
    let outcome = read_beside_a_counter(quaver::Builder::new().workers(1).quantum(None));
    assert!(outcome.is_some_and(|(in_time, _)| in_time), "{outcome:?}");
}

/// Many threads fault and compute while they are preempted: every page is right, all end, and the
/// workers' number stays what it was.
#[test]
fn many_faults_at_once() {
    const PAGES: usize = 240;
    const THREADS: usize = 12;
    for setup in Setup::with_workers(1).into_iter().chain(Setup::with_workers(2)) {
        let delays = AtomicU64::new(1);
        let Some(file) = SlowFile::new(PAGES, move |_| {
            // From none to about four looks, in no order.
            let next = delays.load(SeqCst).wrapping_mul(6364136223846793005).wrapping_add(1);
            delays.store(next, SeqCst);
            std::thread::sleep(Duration::from_micros(next >> 33 & 1023));
        }) else {
            return;
        };
        let sum = AtomicU64::new(0);
        setup.run_with(setup.builder().fault_look(Some(LOOK)), || {
            quaver::scope(|s| {
                for first in 0..THREADS {
                    let (file, sum) = (&file, &sum);
                    s.spawn(move || {
                        for page in (first..PAGES).step_by(THREADS) {
                            sum.fetch_add(file.read(page), SeqCst);
                            spin(20_000);
                            if page % 3 == 0 {
                                quaver::yield_now();
                            }
                        }
                    });
                }
            });
        });
        assert_eq!(sum.into_inner(), (1..=PAGES as u64).sum::<u64>());
    }
}
