//! Settings that are refused.

use crate::setups;
use crate::support::child;
use crate::support::setup::alone;
use quaver::{BuildError, Builder, Clock};
use std::time::Duration;

/// One runtime in a process, and none on a user thread.
#[test]
fn a_second_runtime_is_refused() {
    for setup in setups() {
        setup.run_built(setup.builder(), |rt| {
            for _ in 0..3 {
                let e = setup.builder().build().unwrap_err();
                assert!(matches!(e, BuildError::AlreadyRunning));
                let text = e.to_string();
                assert!(
                    text.contains("already running") && text.contains("shut it down"),
                    "{text}"
                );
                let e = rt.run(|| Builder::new().build().unwrap_err());
                assert!(matches!(e, BuildError::OnUserThread), "{e}");
            }
            assert_eq!(rt.run(|| 5), 5, "the first is as good as before");
        });
    }
}

pub(crate) fn error(builder: Builder) -> String {
    builder.build().expect_err("a runtime was built").to_string()
}

#[test]
fn bad_values_are_refused() {
    alone(|| {
        let b = Builder::new;
        let expect = |builder: Builder, words: &[&str]| {
            let text = error(builder);
            assert!(words.iter().all(|w| text.contains(w)), "{text:?} should mention {words:?}");
        };
        expect(b().workers(0), &["0 workers", "between 1 and"]);
        expect(b().workers(100_000), &["100000 workers", "1024"]);
        expect(b().cpus(vec![8_000]), &["CPU 8000", "may use", "taskset"]);
        expect(b().timer_cpu(Some(8_001)), &["CPU 8001"]);
        let cpu = quaver::platform::facts().cpus[0];
        expect(b().cpus(vec![cpu]).workers(2), &["2 workers", "pinned", "1 CPUs"]);
        let ns = Duration::from_nanos;
        for (clock, least) in
            [(Clock::PosixTimer, 10_000), (Clock::TimerThread, 5_000), (Clock::TimerCore, 2_000)]
        {
            assert_eq!(clock.min_quantum(), ns(least));
            let short = b().clock(clock).quantum(Some(ns(least - 1)));
            expect(short, &["quantum", &clock.to_string(), "off"]);
        }
        expect(b().stack_size(4_096), &["4096 bytes", "at least"]);
        expect(b().stack_size(0), &["0 bytes"]);
        expect(b().max_threads(0), &["max_threads of 0"]);
        expect(b().max_threads(u32::MAX), &["max_threads", "2^24"]);
        for signal in [-1, 0, 9, 11, 19, 32, 33, 65] {
            expect(b().signal(signal), &[&format!("signal {signal}"), "cannot be used"]);
        }
        expect(b().quantum_str("soon"), &["quantum", "`soon`"]);
        expect(b().policy_str("fairest"), &["policy", "fairest"]);
        expect(b().clock_str("sundial"), &["sundial", "timer-core", "posix-timer"]);
        // After all of that a good one is built.
        b().workers(1).build().unwrap().shutdown();
    });
}

#[test]
fn bad_environment_variables_are_refused() {
    for (name, value, words) in [
        ("QUAVER_WORKERS", "many", ["many", "number"]),
        ("QUAVER_WORKERS", "0", ["QUAVER_WORKERS", "from 1 to 1024"]),
        ("QUAVER_CPUS", "0-", ["0-", "CPU"]),
        ("QUAVER_CPUS", "7999", ["CPU 7999", "may use"]),
        ("QUAVER_POLICY", "lottery", ["lottery", "QUAVER_POLICY"]),
        ("QUAVER_QUANTUM", "-5us", ["-5us", "QUAVER_QUANTUM"]),
        ("QUAVER_QUANTUM", "1ns", ["1ns", "off"]),
        ("QUAVER_CLOCK", "cuckoo", ["cuckoo", "timer-thread"]),
        ("QUAVER_NOTIFICATION", "telegram", ["telegram", "signal"]),
        ("QUAVER_TIMER_CPU", "x", ["x", "QUAVER_TIMER_CPU"]),
        ("QUAVER_STACK_SIZE", "big", ["big", "bytes"]),
        ("QUAVER_STACK_SIZE", "1k", ["1024 bytes", "at least"]),
        ("QUAVER_MAX_THREADS", "0", ["QUAVER_MAX_THREADS", "from 1 to"]),
        ("QUAVER_MAX_BLOCKING", "few", ["QUAVER_MAX_BLOCKING", "number"]),
        ("QUAVER_SIGNAL", "9", ["signal 9", "cannot be used"]),
        ("QUAVER_RESUME", "magic", ["magic", "sigreturn"]),
    ] {
        let child = child::command("environment").env(name, value).spawn().unwrap();
        let o = child::finish(child);
        o.expect_success();
        assert!(words.iter().all(|w| o.stdout.contains(w)), "{name}={value}: {o:#?}");
    }
    let mut good = child::command("environment");
    good.env("QUAVER_WORKERS", "1").env("QUAVER_CLOCK", "posix-timer");
    good.env("QUAVER_POLICY", "rr").env("QUAVER_QUANTUM", "50us").env("QUAVER_STACK_SIZE", "1g");
    let o = child::finish(good.spawn().unwrap());
    o.expect_success();
    assert!(o.stdout.contains("PosixTimer 1 rr:quantum=50us"), "{o:#?}");
    assert!(!o.stderr.contains("did you mean"), "{o:#?}");
}

#[test]
fn misspelt_environment_variables_are_reported() {
    let misspelt = format!("QUAVER_{}", "WORKER");
    let o = child::finish(child::command("environment").env(&misspelt, "1").spawn().unwrap());
    o.expect_success();
    let message = format!("variable {misspelt} is not known; did you mean QUAVER_WORKERS?");
    assert_eq!(o.stderr.matches(&message).count(), 1, "{o:#?}");
}
