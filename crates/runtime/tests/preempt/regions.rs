//! Regions in which a thread is not preempted.

use crate::support::{Setup, spin, stats, until, until_preempted};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// On one worker a region is never interrupted: whoever looks from outside never sees one that has
/// begun and not ended.
#[test]
fn regions_are_not_interrupted() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            let inside = AtomicBool::new(false);
            let goal = setup.preemptions(60);
            let enough = || stats().preempt_deferred >= goal && stats().preempt_useful >= goal;
            quaver::scope(|s| {
                for i in 0..3 {
                    let inside = &inside;
                    s.spawn(move || {
                        until(enough, |step| {
                            assert!(!inside.load(SeqCst));
                            let region = || {
                                assert!(!quaver::is_preemptible());
                                assert!(!inside.swap(true, SeqCst));
                                spin(if step % 8 == i { 20_000 } else { 300 });
                                // Regions nest: the inner end is no end.
                                drop(quaver::NoPreempt::new());
                                spin(300);
                                assert!(inside.swap(false, SeqCst));
                            };
                            if step % 2 == 0 {
                                quaver::no_preempt(region);
                            } else {
                                let guard = quaver::NoPreempt::new();
                                region();
                                drop(guard);
                            }
                            assert!(quaver::is_preemptible());
                            spin(300);
                        });
                    });
                }
            });
        });
    }
}

/// A preemption that came too early happens when the region ends, not a quantum later.
#[test]
fn deferred_preemptions_happen_at_the_end() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            let (others, stop) = (AtomicU64::new(0), AtomicBool::new(false));
            quaver::scope(|s| {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        others.fetch_add(1, SeqCst);
                    }
                });
                let goal = setup.preemptions(30);
                let mut at_the_end = 0;
                // Half of all regions at least: the others may have begun early in a quantum.
                for region in 0..2_000_000u64 {
                    let (first, last) = quaver::no_preempt(|| {
                        let first = others.load(SeqCst);
                        spin(20_000);
                        (first, others.load(SeqCst))
                    });
                    let after = others.load(SeqCst);
                    assert_eq!(first, last, "interrupted");
                    at_the_end += u64::from(after > last);
                    if at_the_end >= goal {
                        break;
                    }
                    assert!(region < 1_999_999, "only {at_the_end} of {region}");
                }
                stop.store(true, SeqCst);
            });
        });
    }
}

/// What a region does may still have to wait, for a thread that was preempted, say.
#[test]
fn regions_may_wait() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            let mutex = Mutex::new(0u64);
            quaver::scope(|s| {
                for i in 0..3 {
                    let mutex = &mutex;
                    s.spawn(move || {
                        until_preempted(setup.preemptions(60), |step| {
                            if (i + step) % 2 == 0 {
                                let mut value = mutex.lock().unwrap();
                                spin(1_000);
                                *value += 1;
                            } else {
                                quaver::no_preempt(|| {
                                    *mutex.lock().unwrap() += 1;
                                    assert!(!quaver::is_preemptible(), "it is a region still");
                                });
                            }
                        });
                    });
                }
            });
            let turn = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..2 {
                    let turn = &turn;
                    s.spawn(move || {
                        for k in 0..50 {
                            quaver::no_preempt(|| {
                                while turn.load(SeqCst) != 2 * k + i {
                                    match k % 4 {
                                        0 => quaver::yield_now(),
                                        1 => std::thread::yield_now(),
                                        2 => quaver::sleep(Duration::from_nanos(1)),
                                        _ => std::thread::sleep(Duration::from_nanos(1)),
                                    }
                                }
                                turn.fetch_add(1, SeqCst);
                            });
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn a_panic_ends_its_region() {
    for setup in Setup::clocks(1) {
        setup.run(|| {
            for _ in 0..20 {
                let result = std::panic::catch_unwind(|| {
                    quaver::no_preempt(|| {
                        let _guard = quaver::NoPreempt::new();
                        std::panic::resume_unwind(Box::new(()));
                    })
                });
                assert!(result.is_err() && quaver::is_preemptible());
            }
            // A region that its thread never left is not inherited by the next on that stack.
            for _ in 0..20 {
                let t = quaver::spawn(|| {
                    assert!(quaver::is_preemptible());
                    std::mem::forget(quaver::NoPreempt::new());
                });
                t.join().unwrap();
            }
        });
    }
}
