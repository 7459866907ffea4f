//! When preemption is asked for, and what comes of it.

use crate::support::{Rng, Setup, spin, stats, until_preempted, with_runtime};
use std::hint::black_box;
use std::sync::{Arc, Mutex};

/// Every request has one outcome at most.
#[test]
fn counters_add_up() {
    for setup in Setup::all() {
        println!("-- {setup}");
        let stats = with_runtime(setup.builder(), |rt| {
            rt.run(|| {
                quaver::scope(|s| {
                    for i in 0..4u64 {
                        s.spawn(move || {
                            let mut rng = Rng(i);
                            until_preempted(setup.preemptions(200), |_| {
                                match rng.below(4) {
                                    0 => {
                                        quaver::no_preempt(|| drop(black_box(vec![spin(400); 10])))
                                    }
                                    1 => drop(quaver::spawn(|| spin(50)).join()),
                                    2 => quaver::yield_now(),
                                    _ => _ = spin(2_000),
                                };
                            });
                        });
                    }
                });
            });
            while rt.stats().completed < rt.stats().spawned {
                std::thread::yield_now();
            }
            rt.stats()
        });
        println!("{stats:?}");
        assert_eq!(stats.spawned, stats.completed);
        assert!(stats.preempt_useful >= setup.preemptions(200));
        assert!(stats.preempt_received <= stats.preempt_sent);
        assert!(stats.preempt_useful <= stats.preempt_received);
        assert!(stats.preempt_useful + stats.preempt_stale <= stats.preempt_sent);
        assert!(stats.preempt_deferred <= stats.preempt_received);
        assert!(stats.switches >= stats.completed + stats.preempt_useful);
    }
}

/// Without waiting work there is nothing to gain: a thread alone is left in peace, and no timer
/// runs.
#[test]
fn a_lone_thread_is_not_preempted() {
    for setup in Setup::all() {
        setup.run(|| {
            // Others have been there, so clocks have been running.
            quaver::scope(|s| {
                for _ in 0..setup.workers + 1 {
                    s.spawn(|| until_preempted(setup.preemptions(20), |_| _ = spin(500)));
                }
            });
            // They may be on their last instructions, after the scope's end.
            while stats().completed + 1 < stats().spawned {
                quaver::yield_now();
            }
            let before = stats();
            // Thousands of quanta.
            spin(5_000_000);
            let alone = stats().since(&before);
            assert!(alone.preempt_sent <= 3 && alone.switches <= 3, "{alone:?}");
        });
    }
}

/// A runtime without a quantum preempts nobody.
#[test]
fn preemption_can_be_switched_off() {
    for setup in Setup::all() {
        setup.run_with(setup.builder().quantum(None), || {
            let order = Arc::new(Mutex::new(Vec::new()));
            let threads: Vec<_> = (0..3)
                .map(|i| {
                    let order = order.clone();
                    quaver::spawn(move || {
                        spin(300_000);
                        order.lock().unwrap().push(i);
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            if setup.workers == 1 {
                assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
            }
            assert_eq!((stats().preempt_sent, stats().preempt_useful), (0, 0));
        });
    }
}
