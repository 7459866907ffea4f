//! What preemptions may cost: a bound on their share of a worker's time.

use crate::support::{Setup, on_runtime, spin, with_runtime};
use quaver::sched::quantum_for;
use quaver::{ActivePolicy, Builder};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

/// Two threads want one worker for `time`; how often it was interrupted, and what the runtime takes
/// that to cost.
fn interruptions(builder: Builder, time: Duration) -> (u32, Duration) {
    with_runtime(builder, |rt| {
        rt.run(|| {
            let end = Instant::now() + time;
            let busy = || {
                while Instant::now() < end {
                    spin(1_000);
                }
            };
            quaver::scope(|s| {
                s.spawn(busy);
                s.spawn(busy);
            });
        });
        let price = rt.preemption_price().unwrap();
        (u32::try_from(rt.stats().preempt_received).unwrap(), price)
    })
}

#[test]
fn a_busy_worker_is_not_interrupted_more_often_than_the_tax_allows() {
    let time = Duration::from_millis(500);
    for setup in Setup::clocks(1) {
        let start = Instant::now();
        let (count, price) = interruptions(setup.builder().tax(1), time);
        let spent = price * count;
        // The share, what a worker may have saved, and as much again for signals that came too late
        // to be of use.
        let allowed = start.elapsed() / 100 + quaver::sched::Tax::SAVINGS;
        println!("{setup}: {count} of {price:?}: {spent:?}, allowed {allowed:?}");
        assert!(spent <= 2 * allowed, "{setup}: {spent:?} of {allowed:?}");
    }
}

/// A worker that has been idle has something to spend, and the bound of a quiet one is not felt:
/// what waits beside a thread that computes gets the worker.
#[test]
fn what_waits_beside_a_thread_that_computes_runs_also_when_the_account_is_empty() {
    for setup in Setup::clocks(1) {
        setup.run_with(setup.builder().tax(10), || {
            let done = AtomicBool::new(false);
            quaver::scope(|s| {
                s.spawn(|| {
                    while !done.load(Relaxed) {
                        spin(1_000);
                    }
                });
                s.spawn(|| {
                    for _ in 0..50 {
                        quaver::sleep(Duration::from_micros(100));
                    }
                    done.store(true, Relaxed);
                });
            });
        });
    }
}

/// The quantum follows what an interruption costs here, unless somebody has chosen one.
#[test]
fn the_machine_says_what_the_quantum_is() {
    let chosen = |builder| {
        with_runtime(builder, |rt| match rt.policy() {
            ActivePolicy::BuiltIn(spec) => (spec.quantum(), rt.preemption_price()),
            ActivePolicy::Custom(name) => panic!("{name}"),
        })
    };
    for builder in [
        Builder::new(),
        Builder::new().policy_str("ws"),
        Builder::new().policy_str("rr:quantum=7ms").quantum_str("auto"),
    ] {
        let (quantum, price) = chosen(builder);
        assert_eq!(quantum, price.map(quantum_for));
        assert!(quantum >= Some(Duration::from_micros(20)), "{quantum:?}");
    }
    let us = Duration::from_micros;
    for (builder, expected) in [
        (Builder::new().quantum(Some(us(70))), Some(us(70))),
        (Builder::new().policy_str("rr:quantum=90us"), Some(us(90))),
        (Builder::new().quantum(None), None),
        (Builder::new().policy_str("fifo").quantum_str("auto"), None),
        (Builder::new().policy_str("rr:quantum=none"), None),
    ] {
        let (quantum, price) = chosen(builder);
        assert_eq!((quantum, price.is_some()), (expected, expected.is_some()));
    }
}

#[test]
fn a_tax_that_is_no_percentage_is_named() {
    for wrong in [0, 101, u32::MAX] {
        let error = Builder::new().tax(wrong).validate().unwrap_err().to_string();
        assert!(error.contains(&format!("a tax of {wrong} %")), "{error}");
    }
    assert_eq!(on_runtime(Builder::new().tax(1), || 6 * 7), 42);
}
