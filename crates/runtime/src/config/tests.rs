//! Tests of settings.

use super::*;
use crate::sys;

fn error(b: Builder) -> String {
    b.check().unwrap_err().to_string()
}

#[test]
fn bad_values_are_named() {
    assert!(error(Builder::new().workers(0)).starts_with("0 workers"));
    assert!(error(Builder::new().workers(5000)).contains("1024"));
    assert!(error(Builder::new().cpus(vec![4000])).contains("CPU 4000"));
    assert!(error(Builder::new().cpus(vec![sys::affinity()[0]]).workers(2)).contains("pinned"));
    assert!(error(Builder::new().stack_size(1000)).contains("1000 bytes"));
    assert!(error(Builder::new().max_threads(0)).contains("max_threads"));
    assert!(error(Builder::new().signal(9)).contains("signal 9"));
    let e = error(Builder::new().clock(Clock::PosixTimer).quantum(Some(Duration::from_nanos(1))));
    assert!(e.contains("1ns") && e.contains("posix-timer") && e.contains("10us"), "{e}");
}

#[test]
fn a_cpu_that_is_named_beyond_the_workers_is_the_clocks_own() {
    let all = sys::affinity();
    let shares = |workers| {
        let b = Builder::new().cpus(all.clone()).workers(workers);
        b.check().unwrap().clock_shares
    };
    assert!(shares(all.len()));
    assert_eq!(shares(1), all.len() == 1);
}

#[test]
fn off_means_no_preemption() {
    assert_eq!(Builder::new().quantum_str("off").check().unwrap().policy.quantum(), None);
}
